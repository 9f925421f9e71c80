// Every name, number, type and default that our job.proto shares with SINGA's.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "job/job.pb.h"

namespace {

namespace pb = google::protobuf;

std::string default_of(const pb::FieldDescriptor& field) {
  pb::FieldDescriptorProto proto;
  field.CopyTo(&proto);
  return proto.has_default_value() ? " = " + proto.default_value() : "";
}

void write(std::ostream& to, const pb::FileDescriptor& file) {
  for (int i = 0; i < file.message_type_count(); ++i) {
    const pb::Descriptor& message = *file.message_type(i);
    to << message.name() << "\n";
    for (int k = 0; k < message.field_count(); ++k) {
      const pb::FieldDescriptor& field = *message.field(k);
      const std::string type = field.message_type() != nullptr ? field.message_type()->name()
                               : field.enum_type() != nullptr  ? field.enum_type()->name()
                                                               : field.type_name();
      to << "  " << field.number() << " " << field.name() << " " << (field.is_repeated() ? "repeated " : "") << type
         << (field.is_packed() ? " packed" : "") << default_of(field) << "\n";
    }
  }
  for (int i = 0; i < file.enum_type_count(); ++i) {
    const pb::EnumDescriptor& values = *file.enum_type(i);
    to << values.name() << "\n";
    for (int k = 0; k < values.value_count(); ++k) {
      to << "  " << values.value(k)->number() << " " << values.value(k)->name() << "\n";
    }
  }
}

TEST(JobProto, NamesNumbersTypesAndDefaultsAreThoseOfSinga) {
  std::ostringstream here;
  write(here, *pleiad::job::JobProto::descriptor()->file());
  std::ifstream file(PLEIAD_GOLDEN);
  ASSERT_TRUE(file.good()) << PLEIAD_GOLDEN;
  const std::string golden((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(here.str(), golden);
}

TEST(JobProto, HasAPackageOfItsOwn) {
  EXPECT_EQ(pleiad::job::JobProto::descriptor()->full_name(), "pleiad.job.JobProto");
}

}  // namespace
