#include <fmt/format.h>

#include <utility>

#include "data/loader_core.h"
#include "pleiad/data.h"
#include "pleiad/error.h"

namespace pleiad {

Batch::Batch(Batch&& other) noexcept : loader_(other.loader_), slot_(std::exchange(other.slot_, nullptr)) {}

Batch& Batch::operator=(Batch&& other) noexcept {
  std::swap(loader_, other.loader_);
  std::swap(slot_, other.slot_);
  return *this;
}

Batch::~Batch() {
  if (slot_ != nullptr) loader_->release(*slot_);
}

std::int64_t Batch::size() const { return static_cast<std::int64_t>(slot_->records.size()); }
std::int64_t Batch::global_size() const { return slot_->plan.count; }
std::int64_t Batch::epoch() const { return slot_->plan.begin.epoch; }
std::span<const std::int64_t> Batch::records() const { return slot_->records; }
std::span<const std::byte> Batch::bytes(std::size_t field) const { return loader_->bytes(*slot_, field); }

namespace {

template <class T>
std::span<const T> typed(std::span<const std::byte> bytes, const Field& field, FieldType type) {
  if (field.type != type) {
    throw InvalidArgument(fmt::format("[Batch] field \"{}\" holds {}; it was accessed as {}", field.name,
                                      name_of(field.type), name_of(type)));
  }
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

std::span<const float> Batch::floats(std::size_t field) const {
  return typed<float>(bytes(field), loader_->fields()[field], FieldType::float32);
}
std::span<const std::int32_t> Batch::ints(std::size_t field) const {
  return typed<std::int32_t>(bytes(field), loader_->fields()[field], FieldType::int32);
}

Loader::Loader(std::shared_ptr<const Store> store, LoaderOptions options)
    : core_(std::make_unique<data::LoaderCore>(std::move(store), std::move(options))) {
  core_->start();
}

Loader::~Loader() = default;

const std::vector<Field>& Loader::fields() const { return core_->fields(); }

std::int64_t Loader::batches_per_epoch() const {
  const std::int64_t batch = core_->options().batch;
  const std::int64_t records = core_->records();
  return core_->options().last == LastBatch::drop ? records / batch : (records + batch - 1) / batch;
}

std::optional<Batch> Loader::next() { return core_->next(); }
LoaderPosition Loader::position() const { return core_->position(); }
void Loader::restore(const LoaderPosition& position) { core_->restore(position); }

}  // namespace pleiad
