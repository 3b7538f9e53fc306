// Package support is added to a package that is measured: it holds the
// functions that choose, at run time, between the code and its mutant.
package support

import (
	"cmp"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutant_chosen, _ = strconv.Atoi(os.Getenv("MUTANT"))
	mutant_file      = os.Getenv("MUTANTS_REACHED")
	mutant_reached   [1 << 14]atomic.Bool
)

type mutant_integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutant_number interface {
	mutant_integer | ~float32 | ~float64
}

// mutant_choose reports whether the mutant id is the one to run, and notes that
// it was reached.
func mutant_choose(id int) bool {
	if mutant_file != "" && mutant_reached[id].CompareAndSwap(false, true) {
		f, err := os.OpenFile(mutant_file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			panic(err)
		}
		f.WriteString(strconv.Itoa(id) + "\n")
		f.Close()
	}
	return id == mutant_chosen
}

func mutant_less[T cmp.Ordered](id int, x, y T) bool {
	if mutant_choose(id) {
		return x <= y
	}
	return x < y
}

func mutant_lessEqual[T cmp.Ordered](id int, x, y T) bool {
	if mutant_choose(id) {
		return x < y
	}
	return x <= y
}

func mutant_greater[T cmp.Ordered](id int, x, y T) bool {
	if mutant_choose(id) {
		return x >= y
	}
	return x > y
}

func mutant_greaterEqual[T cmp.Ordered](id int, x, y T) bool {
	if mutant_choose(id) {
		return x > y
	}
	return x >= y
}

func mutant_add[T mutant_number](id int, x, y T) T {
	if mutant_choose(id) {
		return x - y
	}
	return x + y
}

func mutant_subtract[T mutant_number](id int, x, y T) T {
	if mutant_choose(id) {
		return x + y
	}
	return x - y
}

func mutant_multiply[T mutant_number](id int, x, y T) T {
	if mutant_choose(id) {
		return x / y
	}
	return x * y
}

func mutant_divide[T mutant_number](id int, x, y T) T {
	if mutant_choose(id) {
		return x * y
	}
	return x / y
}

func mutant_remainder[T mutant_integer](id int, x, y T) T {
	if mutant_choose(id) {
		return x * y
	}
	return x % y
}

func mutant_negative[T mutant_number](id int, x T) T {
	if mutant_choose(id) {
		return x
	}
	return -x
}

// mutant_one is the step of x++: the first value only tells its type.
func mutant_one[T mutant_number](id int, _ T) T {
	var zero T
	if mutant_choose(id) {
		return zero - 1
	}
	return 1
}
