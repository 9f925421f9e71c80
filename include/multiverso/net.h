// The supported part of Multiverso's network layer: rank, size, and the sum over all ranks.
#pragma once

#include <cstddef>
#include <string>

#include "multiverso/message.h"
#include "multiverso/multiverso.h"

namespace multiverso {

enum NetThreadLevel { THREAD_SERIALIZED, THREAD_MULTIPLE };

/// Valid between MV_Init and MV_ShutDown. Pleiad's transport carries no messages of programs, so calls of the deleted
/// functions do not compile. Exchange data through tables, MV_Aggregate or pleiad::Session.
class NetInterface {
 public:
  static NetInterface* Get() {
    static NetInterface net;
    return &net;
  }

  int rank() const { return MV_Rank(); }
  int size() const { return MV_Size(); }
  std::string name() const { return "pleiad"; }
  int thread_level_support() const { return THREAD_MULTIPLE; }
  void Finalize() {}

  void Init(int* argc = nullptr, char** argv = nullptr) = delete;
  int Bind(int rank, char* endpoint) = delete;
  int Connect(int* ranks, char* endpoints[], int size) = delete;
  int Send(MessagePtr& message) = delete;
  int Recv(MessagePtr* message) = delete;
  void SendTo(int rank, char* data, int size) const = delete;
  void RecvFrom(int rank, char* data, int size) const = delete;

 private:
  NetInterface() = default;
};

namespace net {

/// Same as MV_Aggregate.
template <typename T>
void Allreduce(T* data, std::size_t count) {
  MV_Aggregate(data, static_cast<int>(count));
}

}  // namespace net

}  // namespace multiverso
