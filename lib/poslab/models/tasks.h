// Small tasks made from a seed, so that a model can be trained and tested without a file. A text is seq_len tokens and
// as many targets; a target is what should follow its token (parity: the parity so far), no_target where nothing is
// asked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "poslab/core/fields.h"
#include "poslab/core/random.h"

namespace poslab {

//   copy              16 symbols drawn at random, a separator, the same symbols again: asked from the separator on
//   reverse           the same, but the second half runs backwards
//   induction         pairs of a key and its value, drawn anew for each text; asked at every key that was seen before
//                     (associative recall)
//   passkey           filler that repeats, a mark and a key of one symbol somewhere in it, the mark again at the end:
//                     asked there
//   modular-addition  a, b, =, a + b mod 23, over and over: asked at =
//   parity            bits; asked at each: the parity of all up to it
enum class Task { copy, reverse, induction, passkey, modular_addition, parity };
constexpr auto words(Task) {
  return word_table<Task>({{Task::copy, "copy"},
                           {Task::reverse, "reverse"},
                           {Task::induction, "induction"},
                           {Task::passkey, "passkey"},
                           {Task::modular_addition, "modular-addition"},
                           {Task::parity, "parity"}});
}

std::int64_t task_vocab_size(Task task);

// One text drawn from the generator; targets has tokens.size() elements. Throws std::invalid_argument "[task] ..." for
// fewer than 8 tokens.
void draw_task(Task task, Generator& generator, std::span<std::int64_t> tokens, std::span<std::int64_t> targets);

// induction or passkey with one question, at the last token, whose answer stands `distance` tokens before it
// (induction: rounded to an odd number, since keys and values take turns). Returns the answer. Throws
// std::invalid_argument "[task] ..." for other tasks and for a distance that is not 2 .. tokens.size() - 2.
std::int64_t draw_recall(Task task, Generator& generator, std::int64_t distance, std::span<std::int64_t> tokens);
// How many answers are equally likely to that question.
std::int64_t recall_answers(Task task);

}  // namespace poslab
