// A message of Multiverso: a header and blobs. Pleiad does not send such messages; see "What is not supported" in
// docs/migration.md.
#pragma once

#include <cstddef>
#include <functional>  // programs written for Multiverso rely on this include
#include <memory>
#include <vector>

#include "multiverso/blob.h"

namespace multiverso {

enum MsgType : int {
  Default = 0,
  Request_Get = 1,
  Request_Add = 2,
  Reply_Get = -1,
  Reply_Add = -2,
  Server_Finish_Train = 31,
  Control_Barrier = 33,
  Control_Reply_Barrier = -33,
  Control_Register = 34,
  Control_Reply_Register = -34
};

class Message {
 public:
  static const int kHeaderSize = 8 * sizeof(int);

  MsgType type() const { return static_cast<MsgType>(header_[kType]); }
  int src() const { return header_[kSource]; }
  int dst() const { return header_[kTarget]; }
  int table_id() const { return header_[kTable]; }
  int msg_id() const { return header_[kId]; }
  void set_type(MsgType type) { header_[kType] = static_cast<int>(type); }
  void set_src(int rank) { header_[kSource] = rank; }
  void set_dst(int rank) { header_[kTarget] = rank; }
  void set_table_id(int id) { header_[kTable] = id; }
  void set_msg_id(int id) { header_[kId] = id; }
  int* header() { return header_; }
  const int* header() const { return header_; }

  std::vector<Blob>& data() { return data_; }
  std::size_t size() const { return data_.size(); }
  void set_data(const std::vector<Blob>& data) { data_ = data; }
  void Push(const Blob& blob) { data_.push_back(blob); }

  /// Returns a message addressed to the sender, with the type that answers this one. The caller owns it.
  Message* CreateReplyMessage() const {
    auto* reply = new Message();
    reply->set_src(dst());
    reply->set_dst(src());
    reply->set_type(static_cast<MsgType>(-header_[kType]));
    reply->set_table_id(table_id());
    reply->set_msg_id(msg_id());
    return reply;
  }

 private:
  enum Field { kSource, kTarget, kType, kTable, kId };

  int header_[8] = {};
  std::vector<Blob> data_;
};

typedef std::unique_ptr<Message> MessagePtr;

}  // namespace multiverso
