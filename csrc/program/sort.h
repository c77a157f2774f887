// Sorting in little code. std::sort takes several kilobytes for every type and order, which every visitor of a page
// would load; the lists here are short, or sorted once per program.

#pragma once

#include <algorithm>
#include <vector>

namespace signwise {

// Sorts by `less(a, b)`; equal elements may change places.
template <class T, class Less>
void sort(std::vector<T>& list, const Less& less) {
    std::make_heap(list.begin(), list.end(), less);
    std::sort_heap(list.begin(), list.end(), less);
}

}  // namespace signwise
