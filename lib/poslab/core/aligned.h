// Arrays whose first element starts a cache line, so that vector loads never straddle two.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace poslab {

// Asks the system for huge pages behind memory that was not touched yet; many small pages cost more time to map than
// to fill. Does nothing for small blocks, or where the system has none.
void prefer_huge_pages(void* data, std::size_t bytes);

// Owns `size` elements of a plain type. Not initialised unless asked: large scratch is written before it is read.
template <class T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size) : size_(size), data_(allocate(size)) {}
  AlignedBuffer(std::size_t size, T value) : AlignedBuffer(size) {
    std::uninitialized_fill_n(data_.get(), size, value);
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<T> span() { return {data_.get(), size_}; }

 private:
  static constexpr std::align_val_t line{64};
  struct Free {
    void operator()(T* p) const { ::operator delete(p, line); }
  };
  static T* allocate(std::size_t size) {
    void* data = ::operator new(size * sizeof(T), line);
    prefer_huge_pages(data, size * sizeof(T));
    return static_cast<T*>(data);
  }

  std::size_t size_ = 0;
  std::unique_ptr<T, Free> data_;
};

}  // namespace poslab
