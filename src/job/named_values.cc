#include "job/named_values.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <map>

namespace pleiad::job {
namespace {

namespace pb = google::protobuf;

void describe_message(const pb::Message& message, const std::string& prefix, NamedValues& to) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const pb::FieldDescriptor* field : set) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string path = prefix + field->name();
      if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
        std::string value;
        pb::TextFormat::PrintFieldValueToString(message, field, field->is_repeated() ? i : -1, &value);
        to.emplace_back(field->is_repeated() ? fmt::format("{}[{}]", path, i) : path, value);
        continue;
      }
      const pb::Message& inner = field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                      : reflection.GetMessage(message, field);
      if (const auto* layer = dynamic_cast<const LayerProto*>(&inner); layer != nullptr && field->is_repeated()) {
        path += fmt::format("[{}]", layer->name().empty() ? fmt::format("{}", i) : layer->name());
      } else if (field->is_repeated()) {
        path += fmt::format("[{}]", i);
      }
      describe_message(inner, path + ".", to);
    }
  }
}

}  // namespace

NamedValues named_values(const JobProto& job) {
  NamedValues to;
  describe_message(job, "", to);
  // Layers of different phases may have the same name, but names must be unique here.
  std::map<std::string, int> seen;
  for (auto& [name, value] : to) {
    if (const int before = seen[name]++; before > 0) name += fmt::format(" ({})", before + 1);
  }
  std::string order;
  for (const LayerProto& layer : job.neuralnet().layer()) order += (order.empty() ? "" : ", ") + layer.name();
  to.emplace_back("the order of layers", order);
  return to;
}

}  // namespace pleiad::job
