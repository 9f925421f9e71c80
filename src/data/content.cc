#include "data/content.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "core/process.h"
#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad::data {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

struct Inflater::Stream {
  z_stream zlib{};
  std::span<const std::byte> left;  ///< input that zlib has not received yet
  bool ended = false;
};

Inflater::Inflater(const MappedFile& file) : file_(file), stream_(std::make_unique<Stream>()) {
  constexpr int kGzip = 16;
  if (inflateInit2(&stream_->zlib, kGzip + MAX_WBITS) != Z_OK) throw MemoryError("zlib has no memory");
  stream_->left = file.bytes();
}

Inflater::~Inflater() { inflateEnd(&stream_->zlib); }

std::size_t Inflater::read(std::span<std::byte> out) {
  z_stream& zlib = stream_->zlib;
  std::size_t done = 0;
  while (done < out.size() && !stream_->ended) {
    if (zlib.avail_in == 0) {
      const std::size_t part = std::min<std::size_t>(stream_->left.size(), std::numeric_limits<int>::max());
      zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stream_->left.data()));
      zlib.avail_in = static_cast<uInt>(part);
      stream_->left = stream_->left.subspan(part);
    }
    const auto room = static_cast<uInt>(std::min<std::size_t>(out.size() - done, std::numeric_limits<int>::max()));
    zlib.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    zlib.avail_out = room;
    const int code = inflate(&zlib, Z_NO_FLUSH);
    done += room - zlib.avail_out;
    const bool input_left = zlib.avail_in > 0 || !stream_->left.empty();
    if (code == Z_STREAM_END) {
      // Concatenated gzip files count as one.
      stream_->ended = !input_left;
      if (input_left && inflateReset(&zlib) != Z_OK) throw InternalError("zlib cannot be reset");
    } else if (code == Z_DATA_ERROR || code == Z_NEED_DICT) {
      throw FileError(fmt::format("{}: is damaged: {}", file_.path().string(),
                                  zlib.msg != nullptr ? zlib.msg : "its gzip data are not valid"));
    } else if (code == Z_MEM_ERROR) {
      throw MemoryError("zlib has no memory");
    } else if (zlib.avail_out > 0 && !input_left) {
      throw FileError(fmt::format("{}: is truncated: its gzip data end too early", file_.path().string()));
    }
  }
  return done;
}

MemoryLimit::MemoryLimit(std::string name) : name_(std::move(name)), bytes_(available_memory() / 2) {}

void MemoryLimit::check(std::size_t bytes) const {
  if (bytes <= bytes_) return;
  throw MemoryError(
      fmt::format("{}: unpacked, it is larger than half of the memory that is left ({}); unpack it with gunzip first",
                  name_, byte_size(bytes_)));
}

Content::Content(const std::filesystem::path& path) : file_(path), inflated_(is_gzip(file_.bytes())) {
  if (!inflated_) return;
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  const MemoryLimit limit(path.string());
  Inflater inflater(file_);
  for (std::size_t got = kChunk; got == kChunk;) {
    const std::size_t before = memory_.size();
    limit.check(before + kChunk);
    memory_.resize(before + kChunk);
    got = inflater.read(std::span(memory_).subspan(before));
    memory_.resize(before + got);
  }
}

void for_each_line(std::span<const std::byte> bytes,
                   FunctionRef<void(std::string_view line, std::int64_t number)> each) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    each(line, number);
  }
}

}  // namespace pleiad::data
