#include "job/enums.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>

#include "job/job.pb.h"

namespace pleiad::job {
namespace {

namespace pb = google::protobuf;

/// Splits the text form into words, numbers and punctuation, without comments. A string is one token that starts with a
/// quote.
class Tokens {
 public:
  explicit Tokens(const std::string& text) : text_(text) {}

  /// Advances to the next token. Returns false at the end.
  bool next() {
    skip();
    if (at_ >= text_.size()) return false;
    line_ = counted_;
    const std::size_t first = at_;
    if (const char c = text_[at_]; c == '"' || c == '\'') {
      for (++at_; at_ < text_.size() && text_[at_] != c && text_[at_] != '\n'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
      at_ = std::min(at_ + 1, text_.size());
    } else if (is_letter(c)) {
      while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    } else {
      ++at_;
    }
    word_ = text_.substr(first, at_ - first);
    return true;
  }
  [[nodiscard]] const std::string& word() const { return word_; }
  [[nodiscard]] int line() const { return line_; }

 private:
  static bool is_letter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+';
  }
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        if (at_ >= text_.size()) return;
      }
      if (std::isspace(static_cast<unsigned char>(text_[at_])) == 0) return;
      counted_ += text_[at_] == '\n' ? 1 : 0;
    }
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int counted_ = 0;  // number of newlines before at_
  int line_ = 0;
  std::string word_;
};

std::vector<std::string> names_of_enum(const pb::EnumDescriptor& values) {
  std::vector<std::string> names;
  for (int i = 0; i < values.value_count(); ++i) names.push_back(values.value(i)->name());
  return names;
}

}  // namespace

std::optional<WrongEnum> find_wrong_enum(const std::string& text) {
  Tokens tokens(text);
  std::vector<const pb::Descriptor*> inside = {JobProto::descriptor()};  // null for a message that is not known
  const pb::FieldDescriptor* field = nullptr;
  bool value = false;  // the next word is the value of the field
  bool list = false;   // the value is inside a list in brackets
  while (tokens.next()) {
    const std::string& word = tokens.word();
    if (word == "{" || word == "<") {
      inside.push_back(field == nullptr ? nullptr : field->message_type());
      value = false;
    } else if (word == "}" || word == ">") {
      if (inside.size() > 1) inside.pop_back();
      field = nullptr;
      value = list = false;
    } else if (word == ":") {
      value = true;
    } else if (word == "[" || word == "]") {
      list = value && word == "[";
      value = list;
    } else if (word == "," || word == ";") {
      value = list;
    } else if (value) {
      value = list;
      const pb::EnumDescriptor* const values = field == nullptr ? nullptr : field->enum_type();
      const bool number = std::isalpha(static_cast<unsigned char>(word[0])) == 0;
      if (values != nullptr && !number && values->FindValueByName(word) == nullptr) {
        return WrongEnum{.line = tokens.line(), .field = field->name(), .word = word, .known = names_of_enum(*values)};
      }
    } else {
      field = inside.back() == nullptr ? nullptr : inside.back()->FindFieldByName(word);
    }
  }
  return {};
}

}  // namespace pleiad::job
