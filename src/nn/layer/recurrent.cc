#include "kernel/recurrent.h"

#include <algorithm>

#include "core/text.h"
#include "kernel/types.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

using kernel::Cell;

const char* kind_of(Cell cell) { return cell == Cell::rnn ? "rnn" : cell == Cell::gru ? "gru" : "lstm"; }

/// Treats (batch, features) as a sequence of one step.
Shape as_sequence(const Shape& shape) { return shape.rank() == 2 ? Shape{shape[0], 1, shape[1]} : shape; }
Tensor as_sequence(const Tensor& tensor) {
  return tensor.empty() ? tensor : Tensor(tensor.dtype(), as_sequence(tensor.shape()), tensor.raw());
}

/// A layer over (batch, steps, features). (batch, features) is a sequence of one step.
class RecurrentLayer final : public Layer, public CarryingLayer {
 public:
  RecurrentLayer(Cell cell, const RecurrentOptions& options, const std::string& activation)
      : cell_(cell), o_(options), function_{.function = kernel::function_named(activation)} {
    expect_at_least("hidden", o_.hidden, 1);
  }
  [[nodiscard]] std::string kind() const override { return kind_of(cell_); }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    if (in.size() != 2 || cell_ == Cell::lstm) expect_inputs(in, 1);
    if (in[0].rank() != 3 && in[0].rank() != 2) {
      throw InvalidArgument(
          fmt::format("expected (batch, steps, features) or (batch, features); received {}", in[0].text()));
    }
    const Shape from = in.size() == 2 ? as_sequence(in[1]) : in[0];
    if (in.size() == 2 && (from.rank() != 3 || from[0] != in[0][0] || from[2] != o_.hidden || o_.carry)) {
      throw InvalidArgument(fmt::format(
          "expected a second input ({}, steps, {}), whose last step is the initial state, and carry off; received {}",
          in[0][0], o_.hidden, in[1].text()));
    }
    if (in[0].rank() == 2) return {{in[0][0], o_.hidden}};
    return {{in[0][0], in[0][1], o_.hidden}};
  }
  [[nodiscard]] std::vector<ParamSpec> parameters(const Shapes& inputs) const override {
    const Shape in = as_sequence(inputs[0]);
    const std::int64_t rows = geometry(in).gates() * o_.hidden;
    const auto spec = [&](const char* name, const Shape& shape, const Param& wanted, std::int64_t fan_in) {
      return ParamSpec{.name = name,
                       .shape = shape,
                       .wanted = wanted,
                       .fan_in = fan_in,
                       .fan_out = o_.hidden,
                       .pieces = shape.rank() == 2};
    };
    std::vector<ParamSpec> all = {spec("weight", {rows, in[2]}, o_.weight_param, in[2]),
                                  spec("recurrent", {rows, o_.hidden}, o_.recurrent_param, o_.hidden)};
    if (o_.bias) all.push_back(spec("bias", {rows}, o_.bias_param, in[2]));
    return all;
  }
  [[nodiscard]] Shapes workspace(const Shapes& inputs) const override {
    const Shape in = as_sequence(inputs[0]);
    const Shape one = {in[0], o_.hidden};
    const Shape all = {in[0], in[1], o_.hidden};
    // With a second input, `back` receives the gradient of the initial state, and the initial state is copied out of
    // that input.
    const kernel::Recurrent r = geometry(in);
    return {{in[0], in[1], r.gates() * o_.hidden},
            all,
            cell_ == Cell::rnn ? one : all,
            one,
            one,
            {r.packed_size()},
            {r.left_size()}};
  }
  [[nodiscard]] Shapes carried(const Shapes& inputs) const override {
    const Shape in = as_sequence(inputs[0]);
    if (!o_.carry) return {};
    return Shapes(cell_ == Cell::lstm ? 2 : 1, Shape{in[0], o_.hidden});
  }
  [[nodiscard]] double products(const Shapes& inputs) const override {
    const Shape in = as_sequence(inputs[0]);
    return static_cast<double>(in[0] * in[1]) *
           static_cast<double>(geometry(in).gates() * o_.hidden * (in[2] + o_.hidden));
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("{} hidden{}", o_.hidden, o_.carry ? ", carried on" : "");
  }
  void forward(Pass& pass) override {
    const bool given = pass.x.size() == 2;
    if (given) copy_last(as_sequence(pass.x[1]), pass.workspace[4]);
    kernel::recurrent_forward(geometry(as_sequence(pass.x[0].shape())), numbers(pass.parameter), pass.x[0], pass.y[0],
                              o_.carry ? pass.carried[0]
                              : given  ? pass.workspace[4]
                                       : none_,
                              o_.carry && cell_ == Cell::lstm ? pass.carried[1] : none_, memory(pass));
  }
  void backward(Pass& pass) override {
    kernel::recurrent_backward(geometry(as_sequence(pass.x[0].shape())), numbers(pass.parameter), pass.x[0], pass.y[0],
                               pass.dy[0], memory(pass),
                               {.dx = pass.dx[0],
                                .by = numbers(pass.gradient),
                                .weight_update = pass.update[0],
                                .recurrent_update = pass.update[1],
                                .through_first = pass.x.size() == 2});
    if (pass.x.size() == 2 && !pass.dx[1].empty()) {
      pass.dx[1].fill(0);
      copy_last(as_sequence(pass.dx[1]), pass.workspace[4], true);
    }
  }

 private:
  [[nodiscard]] kernel::Recurrent geometry(const Shape& in) const {
    return {.cell = cell_, .batch = in[0], .steps = in[1], .in = in[2], .hidden = o_.hidden, .function = function_};
  }
  [[nodiscard]] kernel::RecurrentParameters numbers(const std::vector<Tensor>& from) const {
    return {.weight = from[0], .recurrent = from[1], .bias = o_.bias ? from[2] : none_};
  }
  /// Copies the last step of (batch, steps, hidden) to (batch, hidden), or in the other direction if `back`.
  static void copy_last(const Tensor& sequence, const Tensor& one, bool back = false) {
    const std::int64_t steps = sequence.shape()[1], hidden = sequence.shape()[2];
    kernel::by_type(one.dtype(), [&]<class T>(T) {
      for (std::int64_t n = 0; n < one.shape()[0]; ++n) {
        T* const last = kernel::data<T>(sequence) + ((n + 1) * steps - 1) * hidden;
        T* const own = kernel::data<T>(one) + n * hidden;
        back ? std::copy_n(own, hidden, last) : std::copy_n(last, hidden, own);
      }
    });
  }
  static kernel::RecurrentMemory memory(const Pass& pass) {
    const std::vector<Tensor>& w = pass.workspace;
    return {.gates = w[0], .previous = w[1], .inner = w[2], .cell = w[3], .back = w[4], .packed = w[5], .left = w[6]};
  }

  const Cell cell_;
  const RecurrentOptions o_;
  const kernel::Activation function_;
  const Tensor none_;
};

template <class O>
Fields<O> common_fields() {
  Fields<O> list = {
      field("hidden", static_cast<std::int64_t O::*>(&O::hidden), "units"),
      field("bias", static_cast<bool O::*>(&O::bias), "whether to add a bias"),
      field("carry", static_cast<bool O::*>(&O::carry), "start from the final state of the previous batch")};
  add_param_fields(list, "weight", static_cast<Param O::*>(&O::weight_param));
  add_param_fields(list, "recurrent", static_cast<Param O::*>(&O::recurrent_param));
  add_param_fields(list, "bias", static_cast<Param O::*>(&O::bias_param));
  return list;
}
const Fields<RecurrentOptions>& recurrent_fields() {
  static const Fields<RecurrentOptions> all = common_fields<RecurrentOptions>();
  return all;
}
const Fields<RnnOptions>& rnn_fields() {
  static const Fields<RnnOptions> all = [] {
    Fields<RnnOptions> list = common_fields<RnnOptions>();
    list.push_back(field("activation", &RnnOptions::activation, "of a step"));
    return list;
  }();
  return all;
}

}  // namespace

LayerPtr rnn(const RnnOptions& options) {
  return with_options(std::make_unique<RecurrentLayer>(Cell::rnn, options, options.activation), rnn_fields(), options);
}
LayerPtr gru(const RecurrentOptions& options) {
  return with_options(std::make_unique<RecurrentLayer>(Cell::gru, options, "tanh"), recurrent_fields(), options);
}
LayerPtr lstm(const RecurrentOptions& options) {
  return with_options(std::make_unique<RecurrentLayer>(Cell::lstm, options, "tanh"), recurrent_fields(), options);
}
LayerPtr rnn_from(const LayerFields& text) { return rnn(read_fields(rnn_fields(), text)); }
LayerPtr gru_from(const LayerFields& text) { return gru(read_fields(recurrent_fields(), text)); }
LayerPtr lstm_from(const LayerFields& text) { return lstm(read_fields(recurrent_fields(), text)); }

}  // namespace pleiad::nn
