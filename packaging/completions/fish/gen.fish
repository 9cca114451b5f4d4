# Completion of gen in fish; save it as ~/.config/fish/completions/gen.fish
function __gen_offers
    set -l token (commandline -ct)
    set -l typed (commandline -opc)
    set -l lines ($typed[1] __complete words $typed[2..-1] "$token" 2>/dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path "$token"
        case dirs
            __fish_complete_directories "$token"
        case '*'
            test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
    end
end
complete -c gen -f -a '(__gen_offers)'
