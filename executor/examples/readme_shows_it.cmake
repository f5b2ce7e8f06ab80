# SPDX-License-Identifier: Apache-2.0
# Fails unless the README holds the example's code between its two marks, word for word.
# cmake -D README=<file> -D EXAMPLE=<file> -P this
cmake_minimum_required(VERSION 3.25)

file(READ ${EXAMPLE} code)
set(mark "// [readme]\n")
string(LENGTH "${mark}" mark_length)
string(FIND "${code}" "${mark}" begin)
string(FIND "${code}" "${mark}" end REVERSE)
math(EXPR begin "${begin} + ${mark_length}")
math(EXPR length "${end} - ${begin}")
if(length LESS 100)
  message(FATAL_ERROR "no code between two marks in ${EXAMPLE}")
endif()
string(SUBSTRING "${code}" ${begin} ${length} shown)
file(READ ${README} readme)
string(FIND "${readme}" "${shown}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${README} does not show the code of ${EXAMPLE}")
endif()
