#include "data/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.h"
#include "data/image.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

using data::OwnedField;

/// Checks the fields against each other, and returns the number of records.
std::int64_t records_of(const std::string& name, const std::vector<ArrayField>& fields) {
  if (fields.empty()) throw InvalidArgument(fmt::format("{}: expected at least one field; received none", name));
  std::int64_t records = -1;
  for (const ArrayField& array : fields) {
    const Field& field = array.field;
    for (const std::int64_t extent : field.shape) {
      if (extent < 1) {
        throw InvalidArgument(fmt::format("{}: field \"{}\": expected extents of 1 or more; received [{}]", name,
                                          field.name, fmt::join(field.shape, ", ")));
      }
    }
    if (array.bytes.size() % field.bytes() != 0) {
      throw InvalidArgument(fmt::format("{}: field \"{}\": a record has {} bytes; received {} bytes in all", name,
                                        field.name, field.bytes(), array.bytes.size()));
    }
    const auto count = static_cast<std::int64_t>(array.bytes.size() / field.bytes());
    if (records >= 0 && count != records) {
      throw InvalidArgument(fmt::format("{}: field \"{}\" has {} records, field \"{}\" has {}", name,
                                        fields.front().field.name, grouped(records), field.name, grouped(count)));
    }
    records = count;
  }
  return records;
}

class ArrayStore final : public Store {
 public:
  // NOLINTNEXTLINE(performance-unnecessary-value-param): two arguments of the base need it, in unspecified order
  ArrayStore(std::string name, std::vector<ArrayField> arrays, std::vector<OwnedField> owned)
      : Store(name, records_of(name, arrays), fields_of(arrays)),
        owned_(std::move(owned)),
        arrays_(std::move(arrays)) {}

 private:
  static std::vector<Field> fields_of(const std::vector<ArrayField>& arrays) {
    std::vector<Field> fields;
    for (const ArrayField& array : arrays) fields.push_back(array.field);
    return fields;
  }

  void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
             std::byte* out) const override {
    const Field& wanted = fields()[field];
    const std::byte* from = arrays_[field].bytes.data();
    for (const std::int64_t record : records) {
      out = data::copy_record(wanted, from + static_cast<std::size_t>(record) * wanted.bytes(), window, out);
    }
  }

  std::vector<OwnedField> owned_;
  std::vector<ArrayField> arrays_;
};

}  // namespace

std::unique_ptr<Store> open_arrays(std::vector<ArrayField> fields, std::string name) {
  return std::make_unique<ArrayStore>(std::move(name), std::move(fields), std::vector<OwnedField>());
}

std::unique_ptr<Store> data::keep_arrays(std::string name, std::vector<OwnedField> fields) {
  std::vector<ArrayField> arrays;
  for (const OwnedField& field : fields) arrays.push_back({.field = field.field, .bytes = field.bytes});
  return std::make_unique<ArrayStore>(std::move(name), std::move(arrays), std::move(fields));
}

}  // namespace pleiad
