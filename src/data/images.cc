// Folders of images: FOLDER/CLASS/FILE.png or .jpg. The label of a class is its index among the sorted class names.
// Records are ordered by file name, independent of their class.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "core/text.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/list.h"
#include "data/picture.h"
#include "data/writer.h"
#include "file/atomic.h"
#include "file/atomic_path.h"
#include "file/mapped.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace fs = std::filesystem;

namespace {

struct ImageFile {
  std::string path;
  std::int32_t label = 0;
};

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::string_view kEndings[] = {".jpeg", ".jpg", ".png"};
  return std::ranges::find(kEndings, ending) != std::end(kEndings);
}

/// Returns the entries of a folder sorted by name, without hidden files.
std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code problem;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    if (!it->path().filename().string().starts_with('.')) entries.push_back(it->path());
  }
  if (problem) throw FileError(fmt::format("{}: {}", folder.string(), problem.message()));
  std::ranges::sort(entries);
  return entries;
}

class ImageListing {
 public:
  explicit ImageListing(const StoreOptions& options) {
    for (const std::string& path : options.paths) {
      for (const fs::path& entry : sorted_entries(path)) {
        const bool folder = fs::is_directory(entry);
        if (folder && options.label) classes_.push_back(entry.filename().string());
      }
    }
    std::ranges::sort(classes_);
    classes_.erase(std::ranges::unique(classes_).begin(), classes_.end());
    for (const std::string& path : options.paths) {
      for (const fs::path& entry : sorted_entries(path)) take(entry, options);
    }
    std::ranges::stable_sort(files_, {}, [](const ImageFile& file) { return fs::path(file.path).filename(); });
    if (files_.empty()) {
      throw FileError(fmt::format("{}: has no pictures (.png, .jpg, .jpeg){}", join(options.paths),
                                  options.label ? " in folders of their classes" : ""));
    }
  }

  std::vector<ImageFile> files_;
  std::vector<std::string> classes_;

 private:
  void take(const fs::path& entry, const StoreOptions& options) {
    if (!fs::is_directory(entry)) {
      if (!options.label && is_picture(entry)) files_.push_back({.path = entry.string()});
      return;
    }
    if (!options.label) return;
    const auto label = std::ranges::lower_bound(classes_, entry.filename().string()) - classes_.begin();
    if (options.classes > 0) check_label(label, options.classes, entry.string(), 0);
    for (const fs::path& file : sorted_entries(entry)) {
      if (is_picture(file)) files_.push_back({.path = file.string(), .label = static_cast<std::int32_t>(label)});
    }
  }
};

class ImageFolder final : public Store {
 public:
  ImageFolder(std::string name, std::vector<ImageFile> files, Field data, bool label, bool scale)
      : Store(std::move(name), static_cast<std::int64_t>(files.size()), fields_of(std::move(data), label)),
        files_(std::move(files)),
        scale_(scale) {}

 private:
  static std::vector<Field> fields_of(Field data, bool label) {
    std::vector<Field> fields = {std::move(data)};
    if (label) fields.push_back(label_field());
    return fields;
  }

  void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
             std::byte* out) const override {
    for (const std::int64_t record : records) {
      const ImageFile& file = files_[static_cast<std::size_t>(record)];
      if (field == 1) {
        std::memcpy(out, &file.label, sizeof file.label);
        out += sizeof file.label;
        continue;
      }
      const Field& data = fields()[0];
      const std::string where = fmt::format("{}: record {}", file.path, grouped(record));
      Picture picture = decode_picture(MappedFile(file.path).bytes(), data.shape[0], where);
      if (scale_) picture = scaled(picture, data.shape[1], data.shape[2]);
      if (picture.height != data.shape[1] || picture.width != data.shape[2]) {
        throw FileError(fmt::format(
            "{}: has {} x {} pixels, but the first picture has {} x {}; pass a shape to scale all pictures to it",
            where, picture.height, picture.width, data.shape[1], data.shape[2]));
      }
      out = copy_record(data, reinterpret_cast<const std::byte*>(picture.pixels.data()), window, out);
    }
  }

  std::vector<ImageFile> files_;
  bool scale_;
};

class ImageWriter final : public StoreWriter {
 public:
  explicit ImageWriter(const WriterOptions& options) : StoreWriter(options), place_(options.paths.front(), true) {
    if (!options.label) return;
    for (const std::string& name : options.class_names) make_class(name);
  }

 private:
  void put(std::span<const std::byte> data, std::int32_t label) override {
    const WriterOptions& o = options();
    fs::path folder = place_.temporary();
    if (o.label) {
      const auto known = static_cast<std::int64_t>(o.class_names.size());
      const std::int64_t end = known > 0 ? known : kMaxClasses;
      if (label < 0 || label >= end) {
        throw InvalidArgument(fmt::format("{}: record {}: expected a label of 0 to {}; received {}", o.paths.front(),
                                          grouped(size()), end - 1, label));
      }
      folder /= known > 0 ? o.class_names[static_cast<std::size_t>(label)] : folder_of(label);
      // An empty class keeps its folder; otherwise the labels after it would change.
      for (; known == 0 && classes_ <= label; ++classes_) make_class(folder_of(classes_));
    }
    const std::string png = encode_png(data, o.data.shape[0], o.data.shape[1], o.data.shape[2]);
    const fs::path path = folder / fmt::format("{:08}.png", size());
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wbe"), std::fclose);
    const bool done = file != nullptr && std::fwrite(png.data(), 1, png.size(), file.get()) == png.size() &&
                      std::fflush(file.get()) == 0;
    if (!done) throw FileError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  }
  void finish() override { place_.commit(); }

  void make_class(const std::string& name) const {
    std::error_code problem;
    fs::create_directory(place_.temporary() / name, problem);
    if (problem) throw FileError(fmt::format("{}: {}", (place_.temporary() / name).string(), problem.message()));
  }

  static constexpr std::int64_t kMaxClasses = 100000;
  /// Labels are zero-padded, so that the names sort like the numbers.
  static std::string folder_of(std::int32_t label) { return fmt::format("{:05}", label); }

  AtomicPath place_;
  std::int32_t classes_ = 0;  // number of classes that have a folder
};

}  // namespace

std::unique_ptr<Store> open_images(const StoreOptions& options) {
  ImageListing listing(options);
  Field data{.name = "data", .type = FieldType::uint8, .shape = options.shape};
  if (options.shape.empty()) {
    const std::string& first = listing.files_.front().path;
    const Picture picture = decode_picture(MappedFile(first).bytes(), 0, fmt::format("{}: record 0", first));
    data.shape = {picture.channels, picture.height, picture.width};
  } else if (data.shape.size() != 3 || (data.shape[0] != 1 && data.shape[0] != 3) || data.shape[1] < 1 ||
             data.shape[2] < 1) {
    throw InvalidArgument(fmt::format("images: expected a shape of [1 or 3, height, width]; received [{}]",
                                      fmt::join(options.shape, ", ")));
  }
  return windowed(std::make_unique<ImageFolder>(join(options.paths), std::move(listing.files_), std::move(data),
                                                options.label, !options.shape.empty()),
                  options.window);
}

std::unique_ptr<StoreWriter> create_images(const WriterOptions& options) {
  expect_paths(options, 1, 1, "one folder");
  expect_type(options, {FieldType::uint8});
  const auto& shape = options.data.shape;
  if (shape.size() != 3 || (shape[0] != 1 && shape[0] != 3)) {
    throw InvalidArgument(fmt::format("{}: expected pictures of shape [1 or 3, height, width]; received [{}]",
                                      options.paths.front(), fmt::join(shape, ", ")));
  }
  return std::make_unique<ImageWriter>(options);
}

}  // namespace pleiad::data
