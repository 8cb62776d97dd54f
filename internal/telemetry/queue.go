package telemetry

import (
	"container/list"
	"context"
	"sync"
)

// Bounds of what waits to be read. A slot is an instance or a workload whose
// newest state waits.
const (
	mostSlots  = 1 << 16
	mostEvents = 1 << 10
)

// key is what a newer item replaces an older one of.
type key struct {
	provider, path, instance string
	counts                   bool
}

// queue holds items until they are read: events first, in their order, then
// samples and counts in the order in which their slots came to wait. It takes
// everything without waiting.
type queue struct {
	mu     sync.Mutex
	events list.List // of Item
	states list.List // of Item
	slots  map[key]*list.Element
	lost   int
	// more has a token while there may be something to read.
	more chan struct{}
}

func newQueue() *queue {
	return &queue{slots: map[key]*list.Element{}, more: make(chan struct{}, 1)}
}

// slotOf is what an item of a state replaces.
func slotOf(it Item) key {
	return key{it.Target.Provider, string(it.Target.Path), it.Instance, it.Counts != nil}
}

func (q *queue) put(it Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.Event != nil {
		q.overtake(it)
		q.events.PushBack(it)
		if q.events.Len() > mostEvents {
			q.events.Remove(q.events.Front())
			q.lost++
		}
	} else {
		q.putState(it)
	}
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// overtake leaves out what an event makes untrue, as events are read first.
func (q *queue) overtake(it Item) {
	drop := func(k key) {
		if e := q.slots[k]; e != nil {
			q.states.Remove(e)
			delete(q.slots, k)
		}
	}
	switch k := slotOf(it); {
	case it.Event.Kind == Gone && it.Instance == "":
		for other := range q.slots {
			if other.provider == k.provider && other.path == k.path {
				drop(other)
			}
		}
	case it.Event.Kind == Gone, it.Event.Kind == Warming:
		drop(k)
	}
}

func (q *queue) putState(it Item) {
	k := slotOf(it)
	if e := q.slots[k]; e != nil {
		e.Value = it
		return
	}
	if len(q.slots) >= mostSlots {
		q.lost++
		return
	}
	q.slots[k] = q.states.PushBack(it)
}

// take returns the next item, and how many were lost since the last time.
func (q *queue) take() (it Item, lost int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	lost, q.lost = q.lost, 0
	if e := q.events.Front(); e != nil {
		return q.events.Remove(e).(Item), lost, true
	}
	if e := q.states.Front(); e != nil {
		it = q.states.Remove(e).(Item)
		delete(q.slots, slotOf(it))
		return it, lost, true
	}
	return Item{}, lost, false
}

// wait returns when there may be something to read, or reports false when ctx
// has ended.
func (q *queue) wait(ctx context.Context) bool {
	select {
	case <-q.more:
		return true
	case <-ctx.Done():
		return false
	}
}
