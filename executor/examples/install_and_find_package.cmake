# SPDX-License-Identifier: Apache-2.0
# Installs the executor as a library of its own, then builds and runs a project that finds it there.
# cmake -D SOURCE=<repository> -D WORK=<folder> -D GENERATOR=<..> -D COMPILER=<..> [-D LAUNCHER=<..>] -P this
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(common -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/library ${common}
  -DBWOS_SERVER=OFF -DBWOS_TESTS=OFF -DBWOS_BENCH=OFF)
run(${CMAKE_COMMAND} --build ${WORK}/library)
run(${CMAKE_COMMAND} --install ${WORK}/library --prefix ${WORK}/installed)
run(${CMAKE_COMMAND} -S ${SOURCE}/executor/examples/find_package -B ${WORK}/consumer ${common}
  -DCMAKE_PREFIX_PATH=${WORK}/installed)
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/hello_pool)
