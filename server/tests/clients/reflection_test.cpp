// SPDX-License-Identifier: Apache-2.0
// Server reflection: its answers, and what a client of gRPC C++ can do with them on both
// transports.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>
#include <reflection_v1.grpc.pb.h>
#include <reflection_v1alpha.grpc.pb.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "each_transport.hpp"
#include "grpc/reflection.hpp"

namespace bwos::server::test {
namespace {

namespace v1 = grpc::reflection::v1;
namespace v1alpha = grpc::reflection::v1alpha;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;

template <class Response>
std::vector<std::string> names_of_files(const Response& from) {
  std::vector<std::string> names;
  for (const std::string& each : from.file_descriptor_response().file_descriptor_proto()) {
    FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(each));
    names.push_back(file.name());
  }
  return names;
}

/// a needs b and c, which both need d; b has extensions of d's message.
struct four_files : testing::Test {
  four_files() {
    FileDescriptorProto d = file("d.proto", {});
    d.set_syntax("proto2");
    auto& extended = *d.add_message_type();
    extended.set_name("Extended");
    extended.add_extension_range()->set_start(100);
    extended.mutable_extension_range(0)->set_end(200);
    known.BuildFile(d);
    FileDescriptorProto b = file("b.proto", {"d.proto"});
    b.set_syntax("proto2");
    for (const int number : {100, 150}) {
      auto& extension = *b.add_extension();
      extension.set_name("number_" + std::to_string(number));
      extension.set_number(number);
      extension.set_extendee(".four.Extended");
      extension.set_type(google::protobuf::FieldDescriptorProto::TYPE_INT32);
      extension.set_label(google::protobuf::FieldDescriptorProto::LABEL_OPTIONAL);
    }
    known.BuildFile(b);
    known.BuildFile(file("c.proto", {"d.proto"}));
    FileDescriptorProto a = file("a.proto", {"b.proto", "c.proto"});
    a.add_message_type()->set_name("Nested");
    known.BuildFile(a);
  }
  static FileDescriptorProto file(const char* name, const std::vector<const char*>& needs) {
    FileDescriptorProto made;
    made.set_name(name);
    made.set_package("four");
    for (const char* each : needs) made.add_dependency(each);
    return made;
  }
  /// The answer is used again, as a stream does it.
  const v1::ServerReflectionResponse& answer(const v1::ServerReflectionRequest& request) {
    rpc::answer_reflection(known, services, request, answer_);
    EXPECT_EQ(answer_.original_request().SerializeAsString(), request.SerializeAsString());
    EXPECT_EQ(answer_.valid_host(), request.host());
    return answer_;
  }
  int error(const v1::ServerReflectionRequest& request) {
    return answer(request).error_response().error_code();
  }

  DescriptorPool known;
  std::vector<std::string> services{"one.One", "two.Two"};

 private:
  v1::ServerReflectionResponse answer_;
};

TEST_F(four_files, a_file_comes_with_all_that_it_needs_each_once) {
  v1::ServerReflectionRequest request;
  request.set_host("a host");
  request.set_file_by_filename("a.proto");
  const std::vector<std::string> all{"a.proto", "b.proto", "c.proto", "d.proto"};
  EXPECT_EQ(names_of_files(answer(request)), all);
  EXPECT_EQ(names_of_files(answer(request)), all);
  request.set_file_by_filename("d.proto");
  EXPECT_EQ(names_of_files(answer(request)), std::vector<std::string>{"d.proto"});
}

TEST_F(four_files, a_symbol_is_found_by_its_full_name) {
  v1::ServerReflectionRequest request;
  request.set_file_containing_symbol("four.Nested");
  EXPECT_EQ(names_of_files(answer(request)).at(0), "a.proto");
  for (const char* name : {"Nested", ".four.Nested", "four.Nested.", "four.None", ""}) {
    request.set_file_containing_symbol(name);
    EXPECT_EQ(error(request), 5) << name;
  }
}

TEST_F(four_files, extensions_are_found_by_number_and_listed) {
  v1::ServerReflectionRequest request;
  request.mutable_file_containing_extension()->set_containing_type("four.Extended");
  request.mutable_file_containing_extension()->set_extension_number(150);
  EXPECT_EQ(names_of_files(answer(request)), (std::vector<std::string>{"b.proto", "d.proto"}));
  request.mutable_file_containing_extension()->set_extension_number(151);
  EXPECT_EQ(error(request), 5);
  request.mutable_file_containing_extension()->set_containing_type("four.None");
  EXPECT_EQ(error(request), 5);

  request.set_all_extension_numbers_of_type("four.Extended");
  const auto& numbers = answer(request).all_extension_numbers_response();
  EXPECT_EQ(numbers.base_type_name(), "four.Extended");
  std::vector<int> found(numbers.extension_number().begin(), numbers.extension_number().end());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<int>{100, 150}));
  request.set_all_extension_numbers_of_type("four.Nested");
  EXPECT_TRUE(answer(request).has_all_extension_numbers_response());
  EXPECT_EQ(answer(request).all_extension_numbers_response().extension_number_size(), 0);
  request.set_all_extension_numbers_of_type("four.None");
  EXPECT_EQ(error(request), 5);
}

TEST_F(four_files, services_are_listed_once_however_often_one_asks) {
  v1::ServerReflectionRequest request;
  request.set_list_services("*");
  for (int i = 0; i < 2; ++i) {
    const auto& list = answer(request).list_services_response();
    ASSERT_EQ(list.service_size(), 2);
    EXPECT_EQ(list.service(0).name(), "one.One");
    EXPECT_EQ(list.service(1).name(), "two.Two");
  }
}

TEST_F(four_files, nothing_asked_for_is_unimplemented) {
  EXPECT_EQ(error({}), 12);
}

class reflection : public each_transport {};

INSTANTIATE_TEST_SUITE_P(on, reflection, all_transports, name_of_transport);

/// A client's stream of either version.
template <class Stub, class Request, class Response>
struct session {
  explicit session(const std::shared_ptr<grpc::Channel>& channel)
      : stub(channel), stream(stub.ServerReflectionInfo(&context)) {}
  Response ask(const Request& request) {
    Response answer;
    EXPECT_TRUE(stream->Write(request));
    EXPECT_TRUE(stream->Read(&answer));
    return answer;
  }
  std::vector<std::string> list() {
    Request request;
    request.set_list_services("");
    const Response answer = ask(request);
    std::vector<std::string> names;
    for (const auto& each : answer.list_services_response().service()) {
      names.push_back(each.name());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  Response file_of(const std::string& symbol) {
    Request request;
    request.set_file_containing_symbol(symbol);
    return ask(request);
  }
  grpc::Status end() {
    stream->WritesDone();
    return stream->Finish();
  }

  grpc::ClientContext context;
  Stub stub;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream;
};
using session_v1 =
    session<v1::ServerReflection::Stub, v1::ServerReflectionRequest, v1::ServerReflectionResponse>;
using session_v1alpha = session<v1alpha::ServerReflection::Stub, v1alpha::ServerReflectionRequest,
                                v1alpha::ServerReflectionResponse>;

TEST_P(reflection, both_versions_list_all_services_and_describe_each) {
  const std::vector<std::string> all{"bwos.Work",
                                     "connectrpc.conformance.v1.ConformanceService",
                                     "grpc.health.v1.Health",
                                     "grpc.reflection.v1.ServerReflection",
                                     "grpc.reflection.v1alpha.ServerReflection",
                                     "grpc.testing.TestService",
                                     "helloworld.Greeter"};
  session_v1 stream(channel_);
  session_v1alpha alpha(channel_);
  EXPECT_EQ(stream.list(), all);
  EXPECT_EQ(alpha.list(), all);
  for (const std::string& each : all) {
    EXPECT_GE(names_of_files(stream.file_of(each)).size(), 1U) << each;
    EXPECT_EQ(names_of_files(stream.file_of(each)), names_of_files(alpha.file_of(each)));
  }
  EXPECT_EQ(stream.file_of("nobody.Knows").error_response().error_code(), 5);
  EXPECT_EQ(stream.list(), all);  // the stream goes on behind an error
  EXPECT_TRUE(stream.end().ok());
  EXPECT_TRUE(alpha.end().ok());
  expect_all_ended();
}

TEST_P(reflection, a_client_calls_what_it_has_only_been_told_of) {
  session_v1 stream(channel_);
  DescriptorPool told;
  const auto answer = stream.file_of("helloworld.Greeter.SayHello");
  const auto& files = answer.file_descriptor_response().file_descriptor_proto();
  for (int i = files.size(); i-- > 0;) {
    FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(files[i]));
    ASSERT_NE(told.BuildFile(file), nullptr);
  }
  const auto* const method = told.FindMethodByName("helloworld.Greeter.SayHello");
  ASSERT_NE(method, nullptr);
  google::protobuf::DynamicMessageFactory factory(&told);
  const std::unique_ptr<Message> request(factory.GetPrototype(method->input_type())->New());
  request->GetReflection()->SetString(request.get(), method->input_type()->FindFieldByName("name"),
                                      "you");
  const auto [status, bytes] =
      call_raw(channel_, "/helloworld.Greeter/SayHello", request->SerializeAsString());
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::unique_ptr<Message> reply(factory.GetPrototype(method->output_type())->New());
  ASSERT_TRUE(reply->ParseFromString(bytes));
  EXPECT_EQ(
      reply->GetReflection()->GetString(*reply, method->output_type()->FindFieldByName("message")),
      "Hello you");
}

TEST_P(reflection, an_open_stream_does_not_hold_a_stop_and_ends_with_it) {
  session_v1 stream(channel_);
  EXPECT_FALSE(stream.list().empty());
  drain();
  EXPECT_FALSE(stream.list().empty());
  stop(3600s);  // ctest ends it if that is waited for
  EXPECT_EQ(stream.end().error_code(), grpc::StatusCode::UNAVAILABLE);
  expect_all_ended();
}

}  // namespace
}  // namespace bwos::server::test
