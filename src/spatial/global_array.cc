#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/spatial.h"
#include "spatial/block.h"

namespace pleiad {
namespace {

Interval clipped(Interval interval, std::int64_t length) { return intersect(interval, {0, length}); }

/// Returns the output region that a tile's rank computes.
Rect output_of(const GlobalArrayOptions& o, int tile) {
  return o.grid.tile(o.window_h.output(o.height), o.window_w.output(o.width), tile);
}

Rect view_of(const GlobalArrayOptions& o, int tile) {
  const Rect out = output_of(o, tile);
  Rect need{o.window_h.input(out.h), o.window_w.input(out.w)};
  if (!o.pad) need = {clipped(need.h, o.height), clipped(need.w, o.width)};
  return need.empty() ? Rect{} : need;
}

}  // namespace

class GlobalArray::Impl {
 public:
  Impl(Session& session, const GlobalArrayOptions& o)
      : options(o), where(fmt::format("GlobalArray \"{}\"", o.name)), rank(session.rank()) {
    if (o.grid.size() != session.size()) {
      throw InvalidArgument(fmt::format("{}: grid {} needs {} ranks; the world has {}", where, o.grid.text(),
                                        o.grid.size(), session.size()));
    }
    if (std::min({o.batch, o.height, o.width, o.channels}) < 1) {
      throw InvalidArgument(fmt::format("{}: expected lengths of at least 1; received ({}, {}, {}, {})", where, o.batch,
                                        o.height, o.width, o.channels));
    }
    if (o.window_h.output(o.height) < 1 || o.window_w.output(o.width) < 1) {
      throw InvalidArgument(fmt::format("{}: a window of {}x{} does not fit into an image of {}x{}", where,
                                        o.window_h.reach(), o.window_w.reach(), o.height, o.width));
    }
    HaloSpec spec{.name = o.name, .teams = o.grid.teams(), .own = {}, .need = {}};
    spec.batch = o.batch;
    spec.channels = o.channels;
    spec.dtype = o.dtype;
    for (int t = 0; t < o.grid.tiles(); ++t) {
      spec.own.push_back(o.grid.tile(o.height, o.width, t));
      spec.need.push_back(view_of(o, t));
    }
    halo.emplace(session, spec);
    spec.name += ", gathered";
    spec.need.assign(spec.need.size(), {{0, o.height}, {0, o.width}});
    whole.emplace(session, spec);
    output = output_of(o, o.grid.tile_of(rank));
    tile = o.grid.tile(o.height, o.width, o.grid.tile_of(rank));
    fprop.resize(bytes(halo->need()));
    bprop.resize(bytes(tile));
  }

  [[nodiscard]] std::int64_t count(const Rect& rect) const { return rect.places() * options.batch * options.channels; }
  [[nodiscard]] std::size_t bytes(const Rect& rect) const {
    return static_cast<std::size_t>(count(rect)) * size_of(options.dtype);
  }
  void expect(const char* call, ConstView given, const Rect& rect) const {
    if (given.dtype == options.dtype && given.count == count(rect)) return;
    throw InvalidArgument(fmt::format("[{}] {}: expected {} of shape ({}, {}, {}, {}); received {} {} values", call,
                                      where, name_of(options.dtype), options.batch, rect.h.size(), rect.w.size(),
                                      options.channels, grouped(given.count), name_of(given.dtype)));
  }
  [[nodiscard]] std::vector<std::int64_t> shape(const Rect& rect) const {
    return {options.batch, rect.h.size(), rect.w.size(), options.channels};
  }
  [[nodiscard]] Rect image() const { return {{0, options.height}, {0, options.width}}; }
  [[nodiscard]] std::size_t pixel_bytes() const {
    return static_cast<std::size_t>(options.channels) * size_of(options.dtype);
  }

  const GlobalArrayOptions options;
  const std::string where;
  const int rank;
  std::optional<HaloExchange> halo;
  std::optional<HaloExchange> whole;
  Rect tile;
  Rect output;
  std::vector<char> fprop;
  std::vector<char> bprop;
};

GlobalArray::GlobalArray(Session& session, const GlobalArrayOptions& options)
    : impl_(std::make_unique<Impl>(session, options)) {}
GlobalArray::~GlobalArray() = default;

View GlobalArray::get_fprop_view(ConstView local) {
  Impl& in = *impl_;
  in.expect("get_fprop_view", local, in.tile);
  in.halo->forward(local.data, in.fprop.data());
  return {in.fprop.data(), in.count(view()), in.options.dtype};
}

View GlobalArray::get_bprop_view(ConstView error) {
  Impl& in = *impl_;
  in.expect("get_bprop_view", error, view());
  in.halo->backward(error.data, in.bprop.data());
  return {in.bprop.data(), in.count(in.tile), in.options.dtype};
}

void GlobalArray::gather(ConstView local, View to) {
  Impl& in = *impl_;
  in.expect("gather", local, in.tile);
  in.expect("gather", to, in.image());
  in.whole->forward(local.data, to.data);
}

void GlobalArray::scatter(ConstView from, View local) const {
  const Impl& in = *impl_;
  in.expect("scatter", from, in.image());
  in.expect("scatter", local, in.tile);
  copy_part({static_cast<char*>(local.data), in.tile, in.pixel_bytes()},
            {static_cast<char*>(const_cast<void*>(from.data)), in.image(), in.pixel_bytes()}, in.tile,
            {0, in.options.batch});
}

std::vector<std::int64_t> GlobalArray::global_shape() const { return impl_->shape(impl_->image()); }
std::vector<std::int64_t> GlobalArray::local_shape() const { return impl_->shape(impl_->tile); }
std::vector<std::int64_t> GlobalArray::view_shape() const { return impl_->shape(view()); }
std::vector<std::int64_t> GlobalArray::output_shape() const { return impl_->shape(impl_->output); }
const Rect& GlobalArray::tile() const { return impl_->tile; }
const Rect& GlobalArray::view() const { return impl_->halo->need(); }
const Rect& GlobalArray::output() const { return impl_->output; }
const GlobalArrayOptions& GlobalArray::options() const { return impl_->options; }
std::int64_t GlobalArray::sent_bytes() const { return impl_->halo->sent_bytes(); }

}  // namespace pleiad
