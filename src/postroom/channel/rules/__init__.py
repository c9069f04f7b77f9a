"""The dead-letter queue handler of IBM MQ: its rules-table language, and what it does with a message.

* `parser`: `check_table` reads a table; `errors`, `lines`, `tokens`, `checks`, `symbols` are
  what they do it with.
* `table`: `RulesTable`, `Rule`, `Control`, and how a pattern matches.
* `letter`: `DeadLetter`, what a rule can look at; `letter_fields` finds it in a message.
* `handler`: `Handler`, which says what is to be done with which message and when.
"""
