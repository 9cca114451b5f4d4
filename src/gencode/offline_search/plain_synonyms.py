"""Maps plain words of people who ask to what programmers call the same thing.

One way only: `remember` in a question may mean `cache` in the code, but whoever asks for a cache means one.
A line holds everyday words, a colon, and the words of code. It is about programming in general.
"""

PLAIN_WORDS = """
absent missing lacking: none null empty undefined
abbreviate short shortened: abbrev alias truncate
accept: allow valid permit
account: user login profile
active: focus enabled current live
add: append insert push register
adapt fit: resize adjust wrap
adjust tune: update resize scale
again repeated repeatedly: retry repeat redo
age old oldest stale outdated: expire ttl deprecated
agree agreement negotiate: handshake accept
ahead advance: lookahead prefetch peek precompute
alike similar close closest nearest near: distance fuzzy
alive: keepalive heartbeat ping health
allowed permitted may forbidden: permission policy acl
amount: count size total limit
announce tell told inform: notify emit publish event
answer reply: response respond result
appear appearance: style render theme display
arrange arrangement: layout order sort organize
arrive: receive incoming recv accept
asks: prompt request query input
asleep sleeping: idle wait suspend
attempt try tries: retry
automatic automatically: auto default
available: ready exist enabled
avoid: prevent skip guard
backward: reverse rewind back
bad wrong broken malformed: invalid error corrupt
bar: status progress toolbar
batch grouped together: bulk aggregate buffer
bigger large huge: size max grow
bottom: footer last tail
bounds: limit range clamp
branch: tree fork node
broken: error split corrupt
bundle: pack package
busy: lock block
byte: buffer octet
calculate worked out: calc compute
caller: frame stack
cancelled cancel: abort stop interrupt
capital capitals: upper uppercase
carry carried: transfer pass propagate
catch: except recover capture
chain: compose pipeline next
change: update modify mutate diff patch
character letter: char rune
check: verify validate test assert
choose choice pick: select option
chunk piece portion: part segment block fragment
clean cleanup tidy: clear sanitize purge
clock: time timer tick
closest: nearest similar distance
collect: gather accumulate aggregate
collide collision clash: conflict
colour: style ansi palette
combine: merge join compose concat
come: receive from source
compare: equal diff match
complain complaint: error warn raise throw
compress: gzip deflate zip zlib
concurrently simultaneous: parallel async thread
condition: predicate guard
confirm: prompt ack verify
connect: conn socket dial session
contain: include
convert turned: transform parse cast encode
cookie: jar
correct: valid fix
count: total number
crash: panic fatal exception abort
credentials: credential auth password login
cut: truncate trim strip split slice
cycle circular: recursive loop
damaged corrupted: checksum invalid
dangerous unsafe harmful malicious: sanitize escape security
date day: time calendar timestamp
deal dealt: handle process
dead: stale closed expired
deep: recursive nested depth
delay postponed later: defer timeout schedule timer lazy
delete removed: unlink clear drop
depend: dependency require
depth deep: level nesting
describe description: doc help
detect recognise: guess sniff
developer: debug dev
different differ difference: diff change compare
disconnect: close
discover: find scan detect
disk: file fs path save
distinguish: type kind
divide division: split partition chunk
double twice duplicate: dedupe unique dup
draw: render paint display print
drop: discard remove disconnect
due: schedule deadline timer
early earlier earliest: previous history before
effect: apply
element: item node entry
emit emission: publish fire
empty: clear blank null
enclose surround around: wrap context bracket
encrypt secret: cipher crypto tls
end: finish close stop complete
endless forever ever: infinite loop cycle
enlarge grow: expand resize increase backoff
enough: limit min capacity
ensure guarantee: require assert check
enter: input insert type
entry: item record
equal same: eq compare match
erase: delete clear remove
estimate: guess remaining eta
evaluate: eval compute
examine inspect: check
exchange swap: replace
exist: stat
expect: require
expensive costly: cache lazy memo
explain: help describe doc
export: dump write
extend extension plugin: hook addon
external outside: subprocess exec spawn
extract: parse unpack
fail failure: error exception reject
fake pretend simulated: mock stub dummy
fast quick speed: cache optimize
fatal: panic abort exit
fill: populate pad
filter: select exclude include
finish: complete done end
fire triggered: emit dispatch
first: initial head
fix: repair patch
flip: reverse invert toggle
flow: stream control
folder: dir directory path
follow: next redirect tail
forbid forbidden: deny block disallow
forget forgotten: clear evict reset
form: field
format: render style
forward: proxy relay
free: release dealloc dispose
freeze frozen: immutable lock readonly
full: capacity overflow limit
garbage unused: gc sweep collect
generate: create make build
give given: pass provide return
glue: join concat bind
graph: node edge
greatest highest largest longest: max top
group: batch cluster
guess: detect infer sniff
hang stuck freeze: timeout deadlock block
happen: event occur
heading title: header
hear listening: accept
help: usage
hide hidden: ignore mask visible
history past: log previous
hold: keep store buffer
host: server address
human people: readable user pretty
icon picture: image
idle unused: timeout inactive
ignore: skip exclude
immediately instant: immediate sync
import: load require
include: import contain
incoming: receive request
increase: increment grow
index: idx
infer: detect guess
inherit: extend parent super
input: read stdin
inside within: inner contain nested
install: setup
instance: object
instead: fallback default replace override
interpret: parse eval dispatch
interrupt: signal cancel sigint
invent: generate random
issue: create
jump: goto seek
keep: store cache retain save buffer
kill: terminate signal stop
know known: registry
large: max size
later: defer delay lazy schedule
launch: start spawn run
layout: arrange
lazy lazily: defer
lead: prefix
leak: release
leave left: exit skip remain
length long: size len
level: severity
limit: max throttle rate cap quota
link: url href ref
live: watch
locate location: find path
login logged: auth session
look: lookup find search resolve
lose lost: disconnect drop
lower: lowercase min
mail email: smtp message
main: entry
maintain: keep
map: bind binding table
mark: flag tag
mask: hide
match: pattern find compare
measure: time profile benchmark
memory: cache alloc heap
middle: middleware between
miss: default absent require
misspelt misspelled typo: suggest similar unknown
mistake: error invalid
mix: merge
modify: change update mtime
move: rename transfer shift
multiple many several: multi
negate opposite: not invert
nest: recursive depth
network: socket net http connection
next: following
note notice: detect watch notify event
notify notification: event emit listener callback
number: num count int
observe: watch listen subscribe
obtain: get fetch
offer: provide
once: single
order: sort priority
origin: source
outside: outer external
overlap: intersect
overwrite overwritten override: replace
owner owns: uid user
pack: bundle compress encode
package: pkg module
paint: draw render
pair: tuple
parallel: concurrent thread worker
parent: super
part: segment section
partial partially: part
participant: peer member
pass: forward propagate
password: credential auth
paste: clipboard
pause: sleep suspend wait delay
periodic periodically: interval schedule timer cron
permission: mode access acl
piece: chunk part segment
place placeholder: position template
plain: raw text
plan: schedule
plugin: extension addon
point: pointer ref
poll: interval monitor watch
postpone: defer delay
prefer preference: default option config
prepare: init setup build
press: key event
pretty: format
prevent: guard block protect
previous: prev last cache history
priority: order weight
private: secret internal
progress: status
promise: future async
proper properly: valid
protect: guard secure lock
prove proof: verify
provide: supply
push: send append
put: set add
question: prompt ask query
queue waiting: pending backlog
quick: fast
quiet silent: suppress
random: rand
rank: score sort
reach: limit
react: handle
ready: init
receive received: recv read incoming
recent: last lru
recognise: detect match
record: log entry
recover recovery: restore retry
recursive recursively: walk
redirect: location
reduce: downgrade shrink
refer reference: ref
refresh: reload update
register: add
reject: error deny
release: free
reload: refresh watch
remain: left rest
remember: cache store save history memo
remove: delete strip
repair: fix recover
repeat: retry loop
represent: repr
reset: clear
respect regard: honor
restore restored put back: undo reset recover
restrict: limit
reuse: pool cache
revert undo undone: rollback
rewrite rewritten: transform
row: record
run: execute exec
safe: secure escape
same: equal
schedule: timer
screen: display terminal
script: exec
secret: password key
secure security: tls ssl
send: write dispatch emit
separate: delimiter split
series: sequence
several: multi
shell: subprocess
shift: move
short shorten: truncate
shrink shrunk: reduce
shut shutdown: close
silence: silent quiet
simple: basic
skip: ignore
smallest lowest shortest: min
sort: order compare
space blank: whitespace
spawn: fork
spelling: case normalize
stage: phase
standard: std default
start startup: init launch boot
statistics: stats metric
stop: cancel close
store storage: save persist write
stretch: expand pad
strip: trim
structure: struct schema
suffix: extension
summary: report
suppress: silent
survive survives: persist
suspend: pause
switch: toggle flag
take taken: get
talk: connect client protocol
text: string
throw: raise
tidy: clean
together: join combine
top: head
trailing: suffix
translate: i18n
trap: catch
trust untrusted: safe
understand understood: parse
unexpected: error
unique: uuid
unwanted: filter
variable: var env
visible: display
visitor: client user
wake: resume
web: http
wipe: clear erase
"""
