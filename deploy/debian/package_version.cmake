# SPDX-License-Identifier: Apache-2.0
# Read by cpack each time: the package has the version that the last build gave to the binary, unless cpack is told another.
if(NOT CPACK_DEBIAN_PACKAGE_VERSION)
  file(READ ${CPACK_BWOS_VERSION_HEADER} header)
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" CPACK_DEBIAN_PACKAGE_VERSION "${header}")
endif()
