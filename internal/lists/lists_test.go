package lists_test

import (
	"fmt"

	"coalmine/internal/lists"
)

func Example() {
	odd := func(n int) bool { return n%2 == 1 }
	numbers := lists.Make(5, func(i int) int { return i * i })
	fmt.Println(numbers, lists.Filter(numbers, odd), lists.Count(numbers, odd))
	fmt.Println(lists.Map(numbers, odd), *lists.Find(numbers, func(n *int) bool { return *n > 3 }))
	fmt.Println(lists.Filter(numbers[:1], odd) == nil, lists.Find(numbers[:1], func(n *int) bool { return odd(*n) }) == nil)
	fmt.Println(lists.Distinct([]int{3, 1, 3, 2}))
	// Output:
	// [0 1 4 9 16] [1 9] 2
	// [false true false true false] 4
	// true true
	// [1 2 3]
}
