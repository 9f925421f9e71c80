#include "data/picture.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

// A small file may claim to be an image of any size.
constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;

[[noreturn]] void fail_image(const std::string& where, const std::string& what) {
  throw FileError(fmt::format("{}: {}", where, what));
}

void check_size(const std::string& where, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1 || height > kMaxPixels / width) {
    fail_image(where, fmt::format("has {} x {} pixels; expected 1 to {}", height, width, grouped(kMaxPixels)));
  }
}

/// Transposes channels last to channels first.
Picture planes(const std::vector<std::uint8_t>& mixed, std::int64_t channels, std::int64_t height, std::int64_t width) {
  Picture picture{.channels = channels, .height = height, .width = width, .pixels = {}};
  const auto places = static_cast<std::size_t>(height * width);
  const auto count = static_cast<std::size_t>(channels);
  picture.pixels.resize(mixed.size());
  for (std::size_t c = 0; c < count; ++c) {
    for (std::size_t p = 0; p < places; ++p) picture.pixels[c * places + p] = mixed[p * count + c];
  }
  return picture;
}

/// Frees libpng's memory on every exit.
struct PngImage {
  png_image image{};
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

Picture decode_png(std::span<const std::byte> file, std::int64_t channels, const std::string& where) {
  PngImage png;
  png_image& image = png.image;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) {
    fail_image(where, fmt::format("is a damaged PNG: {}", image.message));
  }
  check_size(where, image.height, image.width);
  if (channels == 0) channels = (image.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::vector<std::uint8_t> mixed(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&image, &black, mixed.data(), 0, nullptr) == 0 || (image.warning_or_error & 2) != 0) {
    fail_image(where, fmt::format("is a damaged PNG: {}", image.message));
  }
  return planes(mixed, channels, image.height, image.width);
}

Picture decode_jpeg(std::span<const std::byte> file, std::int64_t channels, const std::string& where) {
  const std::unique_ptr<void, int (*)(void*)> decoder(tjInitDecompress(), tjDestroy);
  if (decoder == nullptr) throw MemoryError("the JPEG library has no memory");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(file.data());
  int width = 0;
  int height = 0;
  int sampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(decoder.get(), bytes, file.size(), &width, &height, &sampling, &colours) != 0) {
    fail_image(where, fmt::format("is a damaged JPEG: {}", tjGetErrorStr2(decoder.get())));
  }
  check_size(where, height, width);
  if (channels == 0) channels = colours == TJCS_GRAY ? 1 : 3;
  std::vector<std::uint8_t> mixed(static_cast<std::size_t>(channels * height * width));
  if (tjDecompress2(decoder.get(), bytes, file.size(), mixed.data(), width, 0, height,
                    channels == 3 ? TJPF_RGB : TJPF_GRAY, TJFLAG_STOPONWARNING) != 0) {
    fail_image(where, fmt::format("is a damaged JPEG: {}", tjGetErrorStr2(decoder.get())));
  }
  return planes(mixed, channels, height, width);
}

/// The weights of old pixels in a new one, starting at `first`; they sum to 1.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

std::vector<Taps> taps(std::int64_t from, std::int64_t to) {
  std::vector<Taps> all;
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(ratio, 1.0);  // half the width of a triangle around the centre of the new pixel
  for (std::int64_t i = 0; i < to; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * ratio - 0.5;
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(middle - reach)));
    const auto high = std::min<std::int64_t>(from - 1, static_cast<std::int64_t>(std::floor(middle + reach)));
    Taps tap{.first = low, .weights = {}};
    double sum = 0;
    for (std::int64_t j = low; j <= high; ++j) {
      tap.weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(j) - middle) / reach));
      sum += tap.weights.back();
    }
    for (double& weight : tap.weights) weight /= sum;
    all.push_back(std::move(tap));
  }
  return all;
}

}  // namespace

Picture decode_picture(std::span<const std::byte> file, std::int64_t channels, const std::string& where) {
  const auto begins = [&](std::initializer_list<unsigned> magic) {
    return file.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), file.begin(),
                      [](unsigned a, std::byte b) { return static_cast<std::byte>(a) == b; });
  };
  if (begins({0x89, 'P', 'N', 'G'})) return decode_png(file, channels, where);
  if (begins({0xFF, 0xD8})) return decode_jpeg(file, channels, where);
  fail_image(where, "is neither a PNG nor a JPEG file");
}

Picture scaled(const Picture& picture, std::int64_t height, std::int64_t width) {
  if (height == picture.height && width == picture.width) return picture;
  const std::vector<Taps> rows = taps(picture.height, height);
  const std::vector<Taps> columns = taps(picture.width, width);
  Picture result{.channels = picture.channels, .height = height, .width = width, .pixels = {}};
  result.pixels.reserve(static_cast<std::size_t>(picture.channels * height * width));
  std::vector<double> row(static_cast<std::size_t>(picture.width));
  for (std::int64_t c = 0; c < picture.channels; ++c) {
    const std::uint8_t* const plane = picture.pixels.data() + c * picture.height * picture.width;
    for (const Taps& vertical : rows) {
      std::ranges::fill(row, 0.0);
      for (std::size_t k = 0; k < vertical.weights.size(); ++k) {
        const std::uint8_t* const from = plane + (vertical.first + static_cast<std::int64_t>(k)) * picture.width;
        for (std::size_t x = 0; x < row.size(); ++x) row[x] += vertical.weights[k] * from[x];
      }
      for (const Taps& horizontal : columns) {
        double sum = 0;
        for (std::size_t k = 0; k < horizontal.weights.size(); ++k) {
          sum += horizontal.weights[k] * row[static_cast<std::size_t>(horizontal.first) + k];
        }
        result.pixels.push_back(static_cast<std::uint8_t>(std::clamp(std::lround(sum), 0L, 255L)));
      }
    }
  }
  return result;
}

std::string encode_png(std::span<const std::byte> pixels, std::int64_t channels, std::int64_t height,
                       std::int64_t width) {
  const auto places = static_cast<std::size_t>(height * width);
  const auto count = static_cast<std::size_t>(channels);
  std::vector<std::uint8_t> mixed(pixels.size());
  for (std::size_t c = 0; c < count; ++c) {
    for (std::size_t p = 0; p < places; ++p) mixed[p * count + c] = static_cast<std::uint8_t>(pixels[c * places + p]);
  }
  PngImage png;
  png_image& image = png.image;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&image, file.data(), &size, 0, mixed.data(), 0, nullptr) == 0) {
    throw InternalError(fmt::format("a PNG cannot be made: {}", image.message));
  }
  file.resize(size);
  return file;
}

}  // namespace pleiad::data
