#include "data/writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

StoreWriter::StoreWriter(WriterOptions options) : options_(std::move(options)) {
  for (const std::int64_t extent : options_.data.shape) {
    if (extent < 1) {
      throw InvalidArgument(fmt::format("{}: expected extents of 1 or more; received [{}]", options_.kind,
                                        fmt::join(options_.data.shape, ", ")));
    }
  }
}

StoreWriter::~StoreWriter() = default;

void StoreWriter::write(std::span<const std::byte> data, std::int32_t label) {
  if (done_) throw StateError(fmt::format("{}: is complete; no more records fit", options_.paths.front()));
  if (data.size() != options_.data.bytes()) {
    throw InvalidArgument(fmt::format("{}: record {}: expected {} of {}, {} bytes; received {}", options_.paths.front(),
                                      grouped(size_), name_of(options_.data.type),
                                      fmt::join(options_.data.shape, " x "), options_.data.bytes(), data.size()));
  }
  put(data, label);
  ++size_;
}

void StoreWriter::commit() {
  if (done_) throw StateError(fmt::format("{}: is complete already", options_.paths.front()));
  if (size_ == 0)
    throw InvalidArgument(fmt::format("{}: expected at least one record; received none", options_.paths.front()));
  finish();
  done_ = true;
}

void data::expect_type(const WriterOptions& options, std::initializer_list<FieldType> types) {
  if (std::ranges::find(types, options.data.type) != types.end()) return;
  std::vector<std::string> known;
  for (const FieldType type : types) known.emplace_back(name_of(type));
  throw InvalidArgument(fmt::format("{}: a store of the kind \"{}\" holds {}; received {}", options.paths.front(),
                                    options.kind, join(known, " or "), name_of(options.data.type)));
}

void data::expect_paths(const WriterOptions& options, std::size_t least, std::size_t most, const char* what) {
  if (options.paths.size() >= least && options.paths.size() <= most) return;
  throw InvalidArgument(
      fmt::format("[create_store] {}: expected {}; received {} path(s)", options.kind, what, options.paths.size()));
}

}  // namespace pleiad
