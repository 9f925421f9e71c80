#include "core/kernels.h"
#include "updater/updater.h"

namespace pleiad {
namespace {

/// value += delta. Integers wrap around.
class Sum final : public Updater {
 public:
  void apply(const Update<float>& update) const override { add(update); }
  void apply(const Update<double>& update) const override { add(update); }
  void apply(const Update<std::int32_t>& update) const override { add(update); }
  void apply(const Update<std::int64_t>& update) const override { add(update); }
  [[nodiscard]] bool additive() const override { return true; }
  [[nodiscard]] bool descends() const override { return false; }

 private:
  template <class T>
  static void add(const Update<T>& update) {
    add_to(dtype_of<T>, update.value, update.delta, update.count);
  }
};

}  // namespace

std::unique_ptr<Updater> make_sum(const UpdaterOptions&) { return std::make_unique<Sum>(); }

}  // namespace pleiad
