# SPDX-License-Identifier: Apache-2.0
# The package bwos-server: (cd build/release && cpack), after a release build, makes bwos-server_VERSION_ARCH.deb there.
# Needs dpkg-dev, file and help2man, at that time only.
set(debian ${CMAKE_CURRENT_LIST_DIR})

# EXCLUDE_FROM_ALL: cmake --install writes below its prefix only, and knows nothing of these.
install(FILES ${debian}/bwos-server.service ${debian}/bwos-server.socket ${debian}/bwos-server-grpc.socket
  DESTINATION /lib/systemd/system COMPONENT system EXCLUDE_FROM_ALL)
install(FILES ${debian}/bwos-server.toml DESTINATION /etc COMPONENT system EXCLUDE_FROM_ALL)
install(FILES ${debian}/copyright DESTINATION share/doc/bwos-server COMPONENT system EXCLUDE_FROM_ALL)
install(FILES ${debian}/access-log.conf ${debian}/logrotate DESTINATION share/doc/bwos-server/examples
  COMPONENT system EXCLUDE_FROM_ALL)
# The man page is what the binary says of itself, with man.h2m.
install(CODE "
  set(page \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/man1/bwos-server.1\")
  file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/man1\")
  execute_process(COMMAND help2man --no-info --section=1 --include=${debian}/man.h2m --output=\${page}
    \"--name=HTTP and gRPC on a work-stealing runtime of BWoS queues\" $<TARGET_FILE:bwos-server>
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND gzip -9 --no-name --force \${page} COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT system EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PROJECT_CONFIG_FILE ${debian}/package_version.cmake)
set(CPACK_BWOS_VERSION_HEADER ${CMAKE_BINARY_DIR}/server/bwos_version.hpp)
set(CPACK_PACKAGE_NAME bwos-server)
set(CPACK_PACKAGE_CONTACT "the authors of bwos <bwos@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "HTTP and gRPC server on a work-stealing runtime of BWoS queues")
set(CPACK_PACKAGE_DESCRIPTION "Serves HTTP/1.1, HTTP/2 and gRPC as a demonstration of queues of blocks that idle workers
steal from. The service listens on 127.0.0.1; /etc/bwos-server.toml holds its settings.")
set(CPACK_COMPONENTS_ALL server system)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS # whatever the umask is
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(WRITE ${CMAKE_BINARY_DIR}/debian/conffiles "/etc/bwos-server.toml\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${debian}/postinst ${debian}/prerm ${debian}/postrm ${CMAKE_BINARY_DIR}/debian/conffiles)
include(CPack)
