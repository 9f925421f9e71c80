#include "data/image.h"

#include <cstring>

namespace pleiad::data {

std::byte* copy_record(const Field& field, const std::byte* from, const Window* window, std::byte* out) {
  if (window == nullptr) {
    std::memcpy(out, from, field.bytes());
    return out + field.bytes();
  }
  const std::size_t element = size_of(field.type);
  const std::size_t stride = static_cast<std::size_t>(field.shape[2]) * element;
  const std::size_t row = static_cast<std::size_t>(window->width) * element;
  const std::byte* first =
      from + static_cast<std::size_t>(window->top) * stride + static_cast<std::size_t>(window->left) * element;
  for (std::int64_t c = 0; c < field.shape[0]; ++c) {
    const std::byte* at = first + static_cast<std::size_t>(c * field.shape[1]) * stride;
    for (std::int64_t y = 0; y < window->height; ++y, at += stride, out += row) std::memcpy(out, at, row);
  }
  return out;
}

namespace {

constexpr const char* kImages = "data";

class WindowStore final : public Store {
 public:
  WindowStore(std::unique_ptr<Store> store, const Window& window)
      : Store(store->name(), store->size(), cut(*store, window)),
        store_(std::move(store)),
        images_(store_->field(kImages)),
        window_(window) {}

 private:
  static std::vector<Field> cut(const Store& store, const Window& window) {
    const std::size_t images = store.field(kImages);
    // Throws if the window is invalid.
    store.read_window(images, {}, window, {});
    std::vector<Field> fields = store.fields();
    fields[images].shape[1] = window.height;
    fields[images].shape[2] = window.width;
    return fields;
  }

  void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
             std::byte* out) const override {
    if (field != images_) {
      store_->read(field, records, {out, records.size() * fields()[field].bytes()});
      return;
    }
    Window inner = window_;
    if (window != nullptr) {
      inner = {.top = window_.top + window->top,
               .left = window_.left + window->left,
               .height = window->height,
               .width = window->width};
    }
    const Field& whole = store_->fields()[field];
    const auto count = records.size() * static_cast<std::size_t>(whole.shape[0] * inner.height * inner.width);
    store_->read_window(field, records, inner, {out, count * size_of(whole.type)});
  }

  std::unique_ptr<Store> store_;
  std::size_t images_;
  Window window_;
};

}  // namespace

std::unique_ptr<Store> windowed(std::unique_ptr<Store> store, const std::optional<Window>& window) {
  if (!window) return store;
  return std::make_unique<WindowStore>(std::move(store), *window);
}

}  // namespace pleiad::data
