package main

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// tallySize is how many ids one storm can use.
const tallySize = 1 << 20

// A tally is memory that all processes of a storm share: the next fresh id,
// and how often the work of each id has begun. It is safe for concurrent use.
type tally struct {
	file   *os.File
	memory []byte
}

// newTally makes an empty tally in a temporary file.
func newTally() (*tally, error) {
	file, err := os.CreateTemp("", "redfence-bench-tally-")
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(4 * (tallySize + 1)); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return mapTally(file)
}

// openTally opens the tally of another process.
func openTally(path string) (*tally, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return mapTally(file)
}

func mapTally(file *os.File) (*tally, error) {
	memory, err := syscall.Mmap(int(file.Fd()), 0, 4*(tallySize+1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("share memory: %w", err), file.Close())
	}
	return &tally{file: file, memory: memory}, nil
}

// at returns a counter: 0 is the next id, i+1 the starts of id i.
func (t *tally) at(i int) *uint32 { return (*uint32)(unsafe.Pointer(&t.memory[4*i])) }

// fresh draws an id that nobody has used.
func (t *tally) fresh() (int, error) {
	id := int(atomic.AddUint32(t.at(0), 1)) - 1
	if id >= tallySize {
		return 0, fmt.Errorf("the storm has used all %d ids", tallySize)
	}
	return id, nil
}

// used returns how many ids have been drawn.
func (t *tally) used() int { return min(int(atomic.LoadUint32(t.at(0))), tallySize) }

// start counts one begin of an id's work.
func (t *tally) start(id int) { atomic.AddUint32(t.at(id+1), 1) }

// twice returns how many ids had their work begun more than once.
func (t *tally) twice() int {
	n := 0
	for id := range t.used() {
		if atomic.LoadUint32(t.at(id+1)) > 1 {
			n++
		}
	}
	return n
}

func (t *tally) close() error {
	return errors.Join(syscall.Munmap(t.memory), t.file.Close())
}

// remove closes the tally and deletes its file.
func (t *tally) remove() error { return errors.Join(t.close(), os.Remove(t.file.Name())) }
