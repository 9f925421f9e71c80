// Recurrent layers over whole sequences. Products that do not depend on the previous step are computed for all steps at
// once.
#pragma once

#include "kernel/activation.h"
#include "kernel/update.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

enum class Cell : std::uint8_t { rnn, gru, lstm };

/// rnn: h = f(a).
/// gru, gates r z n: r = s(a_r), z = s(a_z), n = tanh(W_n x + b_n + r * (U_n h')), h = (1 - z) n + z h'.
/// lstm, gates i f g o: c = s(a_f) c' + s(a_i) tanh(a_g), h = s(a_o) tanh(c).
/// Here a = W x + U h' + b, h' and c' are those of the previous step, and s is the sigmoid.
struct Recurrent {
  Cell cell = Cell::gru;
  std::int64_t batch = 0, steps = 0, in = 0, hidden = 0;
  Activation function = {.function = Function::tanh};  ///< used by rnn only
  [[nodiscard]] std::int64_t gates() const { return cell == Cell::rnn ? 1 : cell == Cell::gru ? 3 : 4; }
  /// Return the sizes of RecurrentMemory::packed and RecurrentMemory::left, in elements.
  [[nodiscard]] std::int64_t packed_size() const;
  [[nodiscard]] std::int64_t left_size() const;
};

/// weight: (gates * hidden, in), recurrent: (gates * hidden, hidden), bias: (gates * hidden) or empty.
struct RecurrentParameters {
  Tensor weight;
  Tensor recurrent;
  Tensor bias;
};

/// The values that forward passes to backward. Backward overwrites it.
struct RecurrentMemory {
  Tensor gates;     ///< (batch, steps, gates * hidden)
  Tensor previous;  ///< (batch, steps, hidden): the outputs of the previous step
  Tensor inner;     ///< (batch, steps, hidden): U_n h' of gru, c of lstm; empty for rnn
  Tensor cell;      ///< (batch, hidden): c of lstm before the first step, and scratch
  Tensor back;      ///< (batch, hidden): scratch
  Tensor packed;    ///< packed_size(): scratch, the recurrent weight, packed once for all steps
  Tensor left;      ///< left_size(): scratch
};

/// x: (batch, steps, in), y: (batch, steps, hidden). Starts from the state in `hidden` and, for lstm, `cell`, both
/// (batch, hidden), and stores the last state there. Starts from 0 if they are empty.
void recurrent_forward(const Recurrent& r, const RecurrentParameters& p, const Tensor& x, const Tensor& y,
                       const Tensor& hidden, const Tensor& cell, const RecurrentMemory& memory);

/// The gradients. Weight gradients are passed to their update if there is one.
struct RecurrentGradients {
  Tensor dx;  ///< not computed if empty
  RecurrentParameters by;
  BlockUpdate* weight_update = nullptr;
  BlockUpdate* recurrent_update = nullptr;
  bool through_first = false;  ///< store the gradient by the initial state in memory.back
};
/// Backpropagates through all steps of this sequence, but not beyond its first step.
void recurrent_backward(const Recurrent& r, const RecurrentParameters& p, const Tensor& x, const Tensor& y,
                        const Tensor& dy, const RecurrentMemory& memory, const RecurrentGradients& to);

}  // namespace pleiad::kernel
