// SPDX-License-Identifier: Apache-2.0
#include "grpc/reflection.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <health.pb.h>
#include <reflection_v1.pb.h>
#include <reflection_v1alpha.pb.h>

#include <algorithm>
#include <string>
#include <vector>

namespace bwos::server::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

void set_error(rpc::code what, const char* message, ServerReflectionResponse& answer) {
  answer.mutable_error_response()->set_error_code(static_cast<int>(what));
  answer.mutable_error_response()->set_error_message(message);
}

/// Null: there is none.
void set_file(const FileDescriptor* file, const char* otherwise, ServerReflectionResponse& answer) {
  if (file == nullptr) return set_error(rpc::code::not_found, otherwise, answer);
  std::vector<const FileDescriptor*> files{file};
  for (std::size_t i = 0; i < files.size(); ++i) {  // ends: each file once
    for (int j = 0; j < files[i]->dependency_count(); ++j) {
      const FileDescriptor* const needed = files[i]->dependency(j);
      if (std::find(files.begin(), files.end(), needed) == files.end()) files.push_back(needed);
    }
  }
  for (const FileDescriptor* const each : files) {
    google::protobuf::FileDescriptorProto contents;
    each->CopyTo(&contents);
    contents.SerializeToString(
        answer.mutable_file_descriptor_response()->add_file_descriptor_proto());
  }
}

void set_extension(const DescriptorPool& known, const std::string& type, int number,
                   ServerReflectionResponse& answer) {
  const Descriptor* const extended = known.FindMessageTypeByName(type);
  const FieldDescriptor* const found =
      extended != nullptr ? known.FindExtensionByNumber(extended, number) : nullptr;
  set_file(found != nullptr ? found->file() : nullptr,
           extended != nullptr ? "no such extension" : "no such type", answer);
}

void set_extension_numbers(const DescriptorPool& known, const std::string& type,
                           ServerReflectionResponse& answer) {
  const Descriptor* const extended = known.FindMessageTypeByName(type);
  if (extended == nullptr) return set_error(rpc::code::not_found, "no such type", answer);
  std::vector<const FieldDescriptor*> extensions;
  known.FindAllExtensions(extended, &extensions);
  auto& numbers = *answer.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type);
  for (const FieldDescriptor* const each : extensions) numbers.add_extension_number(each->number());
}

/// Contracts are described because they are linked in, for which they must be used.
void link_contracts() {
  (void)grpc::health::v1::HealthCheckRequest::descriptor();
  (void)grpc::reflection::v1alpha::ServerReflectionRequest::descriptor();
}

}  // namespace

void answer_reflection(const DescriptorPool& known, std::span<const std::string> services,
                       const ServerReflectionRequest& request, ServerReflectionResponse& answer) {
  answer.Clear();
  answer.set_valid_host(request.host());
  *answer.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      return set_file(known.FindFileByName(request.file_by_filename()), "no such file", answer);
    case ServerReflectionRequest::kFileContainingSymbol:
      return set_file(known.FindFileContainingSymbol(request.file_containing_symbol()),
                      "no such symbol", answer);
    case ServerReflectionRequest::kFileContainingExtension:
      return set_extension(known, request.file_containing_extension().containing_type(),
                           request.file_containing_extension().extension_number(), answer);
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      return set_extension_numbers(known, request.all_extension_numbers_of_type(), answer);
    case ServerReflectionRequest::kListServices:
      for (const std::string& each : services) {
        answer.mutable_list_services_response()->add_service()->set_name(each);
      }
      return;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      break;
  }
  set_error(rpc::code::unimplemented, "nothing that is known was asked for", answer);
}

task<rpc::status> reflect(std::shared_ptr<const std::vector<std::string>> services,
                          rpc::reader<ServerReflectionRequest>& requests,
                          rpc::writer<ServerReflectionResponse>& answers) {
  link_contracts();
  for (;;) {  // ends: with the caller's last request, or the call
    // Of each turn's own: a stream that waits keeps nothing of what it was asked.
    ServerReflectionRequest request;
    if (!co_await requests.read(request)) break;
    ServerReflectionResponse answer;
    answer_reflection(*DescriptorPool::generated_pool(), *services, request, answer);
    if (!co_await answers.write(answer)) break;
  }
  co_return rpc::status{};
}

}  // namespace bwos::server::rpc
