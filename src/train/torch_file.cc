#include "train/torch_file.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>

#include "core/text.h"
#include "data/pickle.h"
#include "file/mapped.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

using data::PickleValue;
using Kind = PickleValue::Kind;
using Bytes = std::span<const std::byte>;

// Signatures of the zip format.
constexpr std::uint32_t kEntry = 0x04034B50;
constexpr std::uint32_t kCentral = 0x02014B50;
constexpr std::uint32_t kEnd = 0x06054B50;
constexpr std::uint32_t kEnd64 = 0x06064B50;
constexpr std::uint32_t kEnd64Locator = 0x07064B50;
constexpr std::size_t kEndBytes = 22;
constexpr std::uint64_t kNarrow = 0xFFFFFFFF;  // the real value is stored elsewhere in 64 bits

/// The files of a zip archive. torch.save does not compress them.
class Archive {
 public:
  explicit Archive(const std::filesystem::path& path) : file_(path) {
    std::uint64_t at = 0;
    std::uint64_t count = 0;
    find_directory(at, count);
    for (std::uint64_t i = 0; i < count; ++i) at = read_entry(at);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: {}", file_.path().string(), printable(what)));
  }
  /// Returns the first file whose name ends with `end`, and sets `folder` to the rest of its name.
  [[nodiscard]] Bytes ending_with(const std::string& end, std::string& folder) const {
    for (const auto& [name, bytes] : entries_) {
      if (!name.ends_with(end)) continue;
      folder = name.substr(0, name.size() - end.size());
      return bytes;
    }
    fail(fmt::format("expected a file that torch.save wrote; it has no {}", end));
  }
  [[nodiscard]] Bytes at(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) fail(fmt::format("has no \"{}\", which its state dict names", name));
    return found->second;
  }
  [[nodiscard]] std::string path() const { return file_.path().string(); }

 private:
  template <class T>
  T number(std::uint64_t at) const {
    const Bytes all = file_.bytes();
    if (at > all.size() || all.size() - at < sizeof(T))
      fail("is truncated or damaged: its directory points outside the file");
    T value;
    std::memcpy(&value, all.data() + at, sizeof value);
    return value;
  }

  void find_directory(std::uint64_t& at, std::uint64_t& count) const {
    const std::size_t size = file_.bytes().size();
    constexpr std::size_t kLongestComment = 65535;
    for (std::size_t back = kEndBytes; back <= size && back <= kEndBytes + kLongestComment; ++back) {
      const std::uint64_t end = size - back;
      if (number<std::uint32_t>(end) != kEnd) continue;
      count = number<std::uint16_t>(end + 10);
      at = number<std::uint32_t>(end + 16);
      if (end >= 20 && number<std::uint32_t>(end - 20) == kEnd64Locator) {
        const auto wide = number<std::uint64_t>(end - 12);
        if (number<std::uint32_t>(wide) != kEnd64) fail("is damaged: its directory is not where it should be");
        count = number<std::uint64_t>(wide + 32);
        at = number<std::uint64_t>(wide + 48);
      }
      return;
    }
    fail("is truncated: it has no directory at its end");
  }

  std::uint64_t read_entry(std::uint64_t at) {
    if (number<std::uint32_t>(at) != kCentral) fail("is damaged: an entry of its directory is invalid");
    const auto method = number<std::uint16_t>(at + 10);
    std::uint64_t size = number<std::uint32_t>(at + 24);
    const std::uint64_t name_bytes = number<std::uint16_t>(at + 28);
    const std::uint64_t extra_bytes = number<std::uint16_t>(at + 30);
    const std::uint64_t comment = number<std::uint16_t>(at + 32);
    std::uint64_t local = number<std::uint32_t>(at + 42);
    const std::uint64_t end = at + 46 + name_bytes + extra_bytes + comment;
    (void)number<std::uint8_t>(end - 1);  // throws if the entry is truncated
    const std::string name(reinterpret_cast<const char*>(file_.bytes().data()) + at + 46,
                           static_cast<std::size_t>(name_bytes));
    if (method != 0) fail(fmt::format("\"{}\" is compressed; torch.save does not compress", name));
    if (size == kNarrow || local == kNarrow) widen(at + 46 + name_bytes, extra_bytes, at, size, local);
    if (number<std::uint32_t>(local) != kEntry) fail(fmt::format("is damaged: \"{}\" is not where it should be", name));
    const std::uint64_t first = local + 30 + number<std::uint16_t>(local + 26) + number<std::uint16_t>(local + 28);
    const Bytes all = file_.bytes();
    if (first > all.size() || size > all.size() - first) fail(fmt::format("is truncated in \"{}\"", name));
    entries_[name] = all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
    return end;
  }

  /// Reads the zip64 extra field: size, packed size and offset in 64 bits. Each is present only if the 32-bit field is
  /// kNarrow.
  void widen(std::uint64_t extra, std::uint64_t bytes, std::uint64_t entry, std::uint64_t& size,
             std::uint64_t& local) const {
    for (std::uint64_t at = extra; at + 4 <= extra + bytes; at += 4 + number<std::uint16_t>(at + 2)) {
      if (number<std::uint16_t>(at) != 1) continue;
      std::uint64_t value = at + 4;
      if (size == kNarrow) {
        size = number<std::uint64_t>(value);
        value += 8;
      }
      if (number<std::uint32_t>(entry + 20) == kNarrow) value += 8;
      if (local == kNarrow) local = number<std::uint64_t>(value);
      return;
    }
  }

  MappedFile file_;
  std::map<std::string, Bytes> entries_;
};

const PickleValue* item(const PickleValue* value, std::size_t index) {
  const bool has = value != nullptr && value->kind == Kind::tuple && index < value->items.size();
  return has ? value->items[index] : nullptr;
}

bool calls(const PickleValue& value, std::string_view what) {
  return value.kind == Kind::object && value.items[0]->kind == Kind::global && value.items[0]->text == what;
}

std::optional<DType> type_of(std::string_view storage) {
  static constexpr std::pair<std::string_view, DType> kStorages[] = {{"torch FloatStorage", DType::float32},
                                                                     {"torch DoubleStorage", DType::float64},
                                                                     {"torch IntStorage", DType::int32},
                                                                     {"torch LongStorage", DType::int64}};
  const auto* const found = std::ranges::find(kStorages, storage, [](const auto& pair) { return pair.first; });
  return found == std::end(kStorages) ? std::nullopt : std::optional(found->second);
}

class StateDict {
 public:
  explicit StateDict(const std::filesystem::path& path)
      : archive_(path), pickle_(archive_.ending_with("data.pkl", folder_), path.string()) {}

  nn::NamedTensors read() {
    const PickleValue* root = &pickle_.root();
    for (const char* key : {"state_dict", "model_state_dict"}) {
      if (const PickleValue* inner = root->find(key)) root = inner;
    }
    const bool ordered = calls(*root, "collections OrderedDict");
    if (root->kind != Kind::dict && !ordered) archive_.fail("expected a state dict: names and arrays");
    nn::NamedTensors all;
    for (std::size_t i = ordered ? 2 : 0; i + 1 < root->items.size(); i += 2) {
      const PickleValue& name = *root->items[i];
      if (name.kind != Kind::text) archive_.fail("expected a state dict; a key is not text");
      all.emplace_back(std::string(name.text), tensor(std::string(name.text), root->items[i + 1]));
    }
    return all;
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    archive_.fail(fmt::format("\"{}\": {}", name, what));
  }

  std::vector<std::int64_t> lengths(const std::string& name, const PickleValue* tuple) const {
    if (tuple == nullptr || tuple->kind != Kind::tuple || tuple->items.size() > Shape::kMaxRank) {
      fail(name, fmt::format("expected an array of at most {} axes", Shape::kMaxRank));
    }
    std::vector<std::int64_t> all;
    for (const PickleValue* one : tuple->items) {
      if (one->kind != Kind::integer || one->integer < 0) fail(name, "expected lengths and strides of at least 0");
      all.push_back(one->integer);
    }
    return all;
  }

  Tensor tensor(const std::string& name, const PickleValue* value) {
    for (int depth = 0; depth < 2 && calls(*value, "torch._utils _rebuild_parameter"); ++depth) {
      value = item(value->items[1], 0);
      if (value == nullptr) fail(name, "is damaged");
    }
    if (!calls(*value, "torch._utils _rebuild_tensor_v2")) fail(name, "expected a PyTorch tensor");
    const PickleValue* const arguments = value->items[1];
    const PickleValue* const storage = item(arguments, 0);
    const PickleValue* const start = item(arguments, 1);
    const std::vector<std::int64_t> shape = lengths(name, item(arguments, 2));
    const std::vector<std::int64_t> strides = lengths(name, item(arguments, 3));
    const PickleValue* const named = storage != nullptr && storage->kind == Kind::other ? storage->items[0] : nullptr;
    const PickleValue* const type = item(named, 1);
    const PickleValue* const key = item(named, 2);
    if (type == nullptr || key == nullptr || start == nullptr || start->integer < 0 || strides.size() != shape.size()) {
      fail(name, "is damaged");
    }
    const std::optional<DType> dtype = type_of(type->text);
    if (!dtype) {
      fail(name,
           fmt::format("expected FloatStorage, DoubleStorage, IntStorage or LongStorage; received {}", type->text));
    }
    return gather(name, *dtype, archive_.at(fmt::format("{}data/{}", folder_, key->text)), start->integer, shape,
                  strides);
  }

  Tensor gather(const std::string& name, DType dtype, Bytes storage, std::int64_t start,
                const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) const {
    const std::size_t size = size_of(dtype);
    const auto room = static_cast<std::int64_t>(storage.size() / size);
    // The farthest element and the number of elements must fit in the storage.
    std::int64_t last = start;
    std::int64_t count = 1;
    bool fits = true;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t reach = 0;
      fits &= shape[d] > 0 && !__builtin_mul_overflow(shape[d] - 1, strides[d], &reach) &&
              !__builtin_add_overflow(last, reach, &last) && !__builtin_mul_overflow(count, shape[d], &count);
    }
    if (!fits || last >= room || count > room) {
      fail(name, fmt::format("has shape {}, but its storage holds {} values", Shape(shape).text(), room));
    }
    Tensor copy(dtype, Shape(shape));
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t left = i;
      std::int64_t from = start;
      for (std::size_t d = shape.size(); d-- > 0;) {
        from += left % shape[d] * strides[d];
        left /= shape[d];
      }
      std::memcpy(static_cast<std::byte*>(copy.raw()) + static_cast<std::size_t>(i) * size,
                  storage.data() + static_cast<std::size_t>(from) * size, size);
    }
    return copy;
  }

  std::string folder_;
  Archive archive_;
  data::Pickle pickle_;
};

}  // namespace

bool is_torch_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return file.bytes().size() >= 4 && std::memcmp(file.bytes().data(), "PK\3\4", 4) == 0;
}

nn::NamedTensors read_torch_file(const std::filesystem::path& path) {
  return checked_read([&] { return StateDict(path).read(); });
}

}  // namespace pleiad
