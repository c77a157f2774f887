// What is worked out once for each key and kept, also when several threads ask at the same time.

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace signwise {

template <class Key, class Made>
class Kept {
  public:
    // make() gives a std::unique_ptr<Made>.
    template <class Make>
    const Made& get(const Key& key, const Make& make) {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::unique_ptr<const Made>& found = made_[key];
        if (!found) found = make();
        return *found;
    }

  private:
    std::mutex mutex_;
    std::map<Key, std::unique_ptr<const Made>> made_;
};

}  // namespace signwise
