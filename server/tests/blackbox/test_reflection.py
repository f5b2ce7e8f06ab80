# SPDX-License-Identifier: Apache-2.0
"""A Python client that has no .proto but reflection's own: what it is told of, it calls."""

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    MISSING = None
except ImportError as missing:
    MISSING = missing

from harness import NATIVE, PATIENCE, Server

TEMPLATE = os.path.join(os.path.dirname(__file__), "../../../proto/reflection.proto.in")
SERVICES = ["bwos.Work", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection", "helloworld.Greeter"]


def contract(version):
    """The messages of a version, by protoc."""
    with tempfile.TemporaryDirectory() as folder:
        name = f"reflection_{version}"
        with open(TEMPLATE, encoding="ascii") as template, \
             open(os.path.join(folder, f"{name}.proto"), "w", encoding="ascii") as file:
            file.write(template.read().replace("@version@", version))
        subprocess.run(["protoc", f"--proto_path={folder}", f"--python_out={folder}", f"{name}.proto"], check=True)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(f"{name}_pb2")
        finally:
            sys.path.remove(folder)


CONTRACTS = {}  # by version


def setUpModule():
    if MISSING:
        raise unittest.SkipTest(f"python3-grpcio and python3-protobuf are not of this Python: {MISSING}")
    CONTRACTS.update({version: contract(version) for version in ("v1", "v1alpha")})


class Client:
    def __init__(self, test, address, version="v1"):
        self.channel = grpc.insecure_channel(address)
        test.addCleanup(self.channel.close)
        self.messages = CONTRACTS[version]
        self.reflect = self.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=self.messages.ServerReflectionResponse.FromString)
        self.pool = descriptor_pool.DescriptorPool()
        self.known = set()

    def ask(self, *requests):
        """The answers on one stream, which the client ends."""
        return list(self.reflect(iter(self.messages.ServerReflectionRequest(**each) for each in requests),
                                 timeout=PATIENCE))

    def services(self):
        answer, = self.ask({"list_services": ""})
        return sorted(each.name for each in answer.list_services_response.service)

    def learn(self, symbol):
        answer, = self.ask({"file_containing_symbol": symbol})
        files = [descriptor_pb2.FileDescriptorProto.FromString(each)
                 for each in answer.file_descriptor_response.file_descriptor_proto]
        for file in reversed(files):  # what it needs, first
            if file.name not in self.known:
                self.pool.Add(file)
                self.known.add(file.name)

    def method(self, service, name):
        """A callable over messages, and the class of its requests."""
        self.learn(service)
        found = self.pool.FindServiceByName(service).FindMethodByName(name)
        factory = message_factory.MessageFactory(self.pool)
        request, reply = (factory.GetPrototype(each) for each in (found.input_type, found.output_type))
        streams = service == "grpc.health.v1.Health" and name == "Watch"
        make = self.channel.unary_stream if streams else self.channel.unary_unary
        return request, make(f"/{service}/{name}", request_serializer=request.SerializeToString,
                             response_deserializer=reply.FromString)


class Reflection(unittest.TestCase):
    def serve(self, *flags):
        server = Server(*flags, grpc=True)
        self.addCleanup(lambda: server.process.poll() is None and server.kill())
        addresses = [server.grpc_address]
        if NATIVE:
            addresses.append("%s:%d" % server.address)
        return server, addresses

    def test_services_are_listed_and_described(self):
        server, addresses = self.serve()
        for address in addresses:
            for version in CONTRACTS:
                client = Client(self, address, version)
                self.assertEqual(client.services(), SERVICES)
                for name in SERVICES:
                    client.learn(name)
                    self.assertEqual(client.pool.FindServiceByName(name).full_name, name)
                client.channel.close()
        self.assertEqual(server.stop(), 0)

    def test_what_is_not_known_is_said_and_the_stream_goes_on(self):
        server, addresses = self.serve()
        for address in addresses:
            client = Client(self, address)
            answers = client.ask({"file_containing_symbol": "nobody.Knows"}, {"file_by_filename": "nothing.proto"}, {},
                                 {"all_extension_numbers_of_type": "nobody.Knows"}, {"file_by_filename": "work.proto"})
            self.assertEqual([each.error_response.error_code for each in answers], [5, 5, 12, 5, 0])
            self.assertEqual(len(answers[-1].file_descriptor_response.file_descriptor_proto), 1)
            client.channel.close()
        self.assertEqual(server.stop(), 0)

    def test_what_was_described_is_called(self):
        server, addresses = self.serve()
        for address in addresses:
            client = Client(self, address)
            request, call = client.method("helloworld.Greeter", "SayHello")
            self.assertEqual(call(request(name="you"), timeout=PATIENCE).message, "Hello you")
            request, call = client.method("bwos.Work", "Burn")
            self.assertEqual(call(request(us=7), timeout=PATIENCE).us, 7)
            request, call = client.method("grpc.health.v1.Health", "Check")
            self.assertEqual(call(request(service="bwos.Work"), timeout=PATIENCE).status, 1)
            with self.assertRaises(grpc.RpcError) as refused:
                call(request(service="nobody.Knows"), timeout=PATIENCE)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.NOT_FOUND)
            client.channel.close()
        self.assertEqual(server.stop(), 0)

    def test_watches_are_told_of_the_drain_and_do_not_hold_it(self):
        server, addresses = self.serve("--drain-delay", "500ms", "--drain-timeout", "10m")
        watches = []
        for address in addresses:
            request, call = Client(self, address).method("grpc.health.v1.Health", "Watch")
            watches += [call(request(service=name)) for name in ("", "helloworld.Greeter")]
        self.assertEqual([next(each).status for each in watches], [1] * len(watches))
        server.signal(signal.SIGTERM)
        self.assertEqual([next(each).status for each in watches], [2] * len(watches))
        for each in watches:
            with self.assertRaises(grpc.RpcError) as ended:
                next(each)
            self.assertEqual(ended.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(server.wait(), 0)

    def test_an_open_stream_does_not_hold_the_drain(self):
        server, addresses = self.serve("--drain-timeout", "10m")
        done = threading.Event()

        def lists_and_waits(request):
            yield request
            done.wait(PATIENCE)

        streams = []
        for address in addresses:
            client = Client(self, address)
            streams.append(client.reflect(lists_and_waits(client.messages.ServerReflectionRequest(list_services=""))))
        for each in streams:
            self.assertEqual(len(next(each).list_services_response.service), len(SERVICES))
        self.assertEqual(server.stop(), 0)
        for each in streams:
            with self.assertRaises(grpc.RpcError) as ended:
                next(each)
            self.assertEqual(ended.exception.code(), grpc.StatusCode.UNAVAILABLE)
        done.set()


if __name__ == "__main__":
    unittest.main()
