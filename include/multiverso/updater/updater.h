// Options of a single add for the updater that the flag updater_type selects.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "multiverso/table_interface.h"
#include "pleiad/api.h"

namespace multiverso {

namespace detail {
/// Same as MV_WorkerId(), but logs no error if there is no session.
PLEIAD_API int WorkerIdOrNone();
}  // namespace detail

/// All fields apply to the add that receives the object. An add without it uses the flags (-updater.momentum=0.9).
/// Per-worker state of an updater is always that of the calling worker, whatever worker_id is.
struct AddOption {
 public:
  AddOption() { values_.worker_id = detail::WorkerIdOrNone(); }
  AddOption(const char* bytes, std::size_t n) { CopyFrom(bytes, n); }

  int worker_id() const { return values_.worker_id; }
  float momentum() const { return values_.momentum; }
  float learning_rate() const { return values_.learning_rate; }
  float rho() const { return values_.rho; }
  float lambda() const { return values_.lambda; }
  void set_worker_id(int id) { values_.worker_id = id; }
  void set_momentum(float value) { values_.momentum = value; }
  void set_learning_rate(float value) { values_.learning_rate = value; }
  void set_rho(float value) { values_.rho = value; }
  void set_lambda(float value) { values_.lambda = value; }

  std::string toString() const {
    return "AddOption: worker_id " + std::to_string(worker_id()) + ", momentum " + std::to_string(momentum()) +
           ", learning_rate " + std::to_string(learning_rate()) + ", rho " + std::to_string(rho()) + ", lambda " +
           std::to_string(lambda()) + "\n";
  }

  /// Five 4-byte fields: worker_id, momentum, learning_rate, rho, lambda.
  const char* data() const { return reinterpret_cast<const char*>(&values_); }
  std::size_t size() const { return sizeof values_; }
  void CopyFrom(const char* bytes, std::size_t n) {
    std::memcpy(&values_, bytes, n < sizeof values_ ? n : sizeof values_);
  }

 private:
  struct Values {
    int worker_id = -1;
    float momentum = 0.0F;
    float learning_rate = 0.01F;
    float rho = 0.1F;
    float lambda = 0.1F;
  };
  Values values_;
};

struct GetOption {
 public:
  GetOption() : worker_id_(detail::WorkerIdOrNone()) {}
  GetOption(const char* bytes, std::size_t n) { CopyFrom(bytes, n); }

  int worker_id() const { return worker_id_; }
  void set_worker_id(int id) { worker_id_ = id; }
  std::string toString() const { return "GetOption: worker_id " + std::to_string(worker_id_) + "\n"; }
  const char* data() const { return reinterpret_cast<const char*>(&worker_id_); }
  std::size_t size() const { return sizeof worker_id_; }
  void CopyFrom(const char* bytes, std::size_t n) {
    std::memcpy(&worker_id_, bytes, n < sizeof worker_id_ ? n : sizeof worker_id_);
  }

 private:
  int worker_id_ = -1;
};

}  // namespace multiverso
