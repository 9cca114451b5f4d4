"""runtime: the names of `budgets/limits.py`, for what goes with the purses."""

from gencode.budgets.limits import NANO as NANO
from gencode.budgets.limits import NO_BUDGET as NO_BUDGET
from gencode.budgets.limits import NOTHING as NOTHING
from gencode.budgets.limits import UNITS as UNITS
from gencode.budgets.limits import Spent as Spent
from gencode.budgets.limits import check_budget as check_budget
from gencode.budgets.limits import in_numbers as in_numbers
from gencode.budgets.limits import in_units as in_units
from gencode.budgets.limits import known as known
from gencode.budgets.limits import limits_of as limits_of
from gencode.budgets.limits import no_budget as no_budget
from gencode.budgets.limits import raised as raised
from gencode.budgets.limits import read as read
