// TensorBoard's event files: records of {length, checksum, message, checksum}. Each message is an Event in Protocol
// Buffers format.
#include "pleiad/events.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/process.h"
#include "data/picture.h"
#include "data/protobuf_fields.h"
#include "file/checksum.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

using data::ProtobufWriter;

// Field numbers of the messages.
enum Event : std::uint8_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum Summary : std::uint8_t { kValue = 1 };
enum Value : std::uint8_t { kTag = 1, kSimpleValue = 2, kImage = 4, kHistogram = 5 };
enum Image : std::uint8_t { kHeight = 1, kWidth = 2, kColourSpace = 3, kEncoded = 4 };
enum Histogram : std::uint8_t { kMin = 1, kMax = 2, kNum = 3, kSum = 4, kSumSquares = 5, kLimit = 6, kBucket = 7 };

constexpr std::size_t kBuckets = 64;
constexpr std::size_t kEventBuffer = std::size_t{1} << 20;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class T>
void append_value(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Rotates and offsets the checksum, because a CRC of data that contains CRCs is weak.
std::uint32_t masked(std::string_view text) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(text)));
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

}  // namespace

struct EventLog::Impl {
  std::string path;
  int file = -1;
  std::string buffer;

  void append_event(const ProtobufWriter& event) {
    std::string length;
    append_value(length, static_cast<std::uint64_t>(event.text().size()));
    buffer += length;
    append_value(buffer, masked(length));
    buffer += event.text();
    append_value(buffer, masked(event.text()));
    if (buffer.size() >= kEventBuffer) write();
  }

  void add(const std::string& tag, std::int64_t step, const ProtobufWriter& value) {
    ProtobufWriter tagged;
    tagged.bytes(kTag, tag);
    ProtobufWriter summary;
    summary.bytes(kValue, tagged.text() + value.text());
    ProtobufWriter event;
    event.number(kWallTime, wall_time());
    event.varint(kStep, static_cast<std::uint64_t>(step));
    event.bytes(kSummary, summary.text());
    append_event(event);
  }

  void write() {
    std::string_view left = buffer;
    while (!left.empty()) {
      const ssize_t done = ::write(file, left.data(), left.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) throw FileError(fmt::format("{}: {}", path, std::strerror(errno)));
      left.remove_prefix(static_cast<std::size_t>(done));
    }
    buffer.clear();
  }
};

EventLog::EventLog(const std::string& folder) : impl_(std::make_unique<Impl>()) {
  static std::atomic<unsigned> serial = 0;
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw FileError(fmt::format("{}: {}", folder, problem.message()));
  Impl& in = *impl_;
  in.path = (std::filesystem::path(folder) / fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                                                         static_cast<std::int64_t>(wall_time()), host_name(),
                                                         ::getpid(), serial++))
                .string();
  in.file = ::open(in.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (in.file < 0) throw FileError(fmt::format("{}: {}", in.path, std::strerror(errno)));
  ProtobufWriter first;
  first.number(kWallTime, wall_time());
  first.bytes(kFileVersion, "brain.Event:2");
  in.append_event(first);
  flush();
}

EventLog::~EventLog() {
  try {
    impl_->write();
  } catch (const FileError& error) {
    fmt::print(stderr, "pleiad: {}\n", error.what());
  }
  ::close(impl_->file);
}

const std::string& EventLog::path() const { return impl_->path; }

void EventLog::scalar(const std::string& tag, std::int64_t step, double value) {
  ProtobufWriter message;
  message.number(kSimpleValue, static_cast<float>(value));
  impl_->add(tag, step, message);
}

void EventLog::histogram(const std::string& tag, std::int64_t step, std::span<const double> values) {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  double count = 0;
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    count += 1;
    sum += value;
    squares += value * value;
  }
  if (count == 0) return;
  const double width = greatest > least ? (greatest - least) / kBuckets : 1.0 / kBuckets;
  std::vector<double> limits;
  std::vector<double> buckets(kBuckets, 0.0);
  for (std::size_t i = 1; i <= kBuckets; ++i) limits.push_back(least + width * static_cast<double>(i));
  limits.back() = std::max(limits.back(), greatest);
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const double place = std::min((value - least) / width, static_cast<double>(kBuckets - 1));
    buckets[static_cast<std::size_t>(place)] += 1;
  }
  ProtobufWriter message;
  message.number(kMin, least);
  message.number(kMax, greatest);
  message.number(kNum, count);
  message.number(kSum, sum);
  message.number(kSumSquares, squares);
  message.bytes(kLimit, std::as_bytes(std::span(limits)));
  message.bytes(kBucket, std::as_bytes(std::span(buckets)));
  ProtobufWriter value;
  value.bytes(kHistogram, message.text());
  impl_->add(tag, step, value);
}

void EventLog::image(const std::string& tag, std::int64_t step, std::span<const std::uint8_t> pixels,
                     std::int64_t channels, std::int64_t height, std::int64_t width) {
  const bool fits = (channels == 1 || channels == 3) && height > 0 && width > 0 &&
                    pixels.size() == static_cast<std::size_t>(channels * height * width);
  if (!fits) {
    throw InvalidArgument(
        fmt::format("\"{}\": expected 1 or 3 channels of height x width bytes; received {} bytes as {} "
                    "x {} x {}",
                    tag, pixels.size(), channels, height, width));
  }
  ProtobufWriter message;
  message.varint(kHeight, static_cast<std::uint64_t>(height));
  message.varint(kWidth, static_cast<std::uint64_t>(width));
  message.varint(kColourSpace, static_cast<std::uint64_t>(channels));
  message.bytes(kEncoded, data::encode_png(std::as_bytes(pixels), channels, height, width));
  ProtobufWriter value;
  value.bytes(kImage, message.text());
  impl_->add(tag, step, value);
}

void EventLog::flush() { impl_->write(); }

}  // namespace pleiad
