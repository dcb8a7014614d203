// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace poslab {

// Writes the parts, one after another, to PATH.partial, syncs it and renames it to PATH. Throws std::runtime_error
// "cannot write PATH: <errno text>" after removing PATH.partial; PATH then is as it was.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

// Puts a whole folder where another may stand, in one step where the file system can (else the old one is moved to
// `target`.previous first); the old folder is removed afterwards. Throws std::runtime_error "cannot write TARGET: ...".
void replace_folder(const std::string& fresh, const std::string& target);

}  // namespace poslab
