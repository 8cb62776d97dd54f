package sight

import (
	"context"
	"sync"
	"time"
)

// eachAtOnce is how many jobs are looked at side by side.
const eachAtOnce = 16

// Each looks at jobs that no list told enough of, several at once, as part of one
// call for many. It stops a little before the call's time is up, so that what was
// seen until then counts: the looks that are left get a context that has ended, and
// their error is theirs alone.
func Each(ctx context.Context, jobs []int, look func(ctx context.Context, job int)) {
	if until, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until.Add(-time.Until(until)/8))
		defer cancel()
	}
	next := make(chan int)
	var all sync.WaitGroup
	for range min(eachAtOnce, len(jobs)) {
		all.Go(func() {
			for job := range next {
				look(ctx, job)
			}
		})
	}
	for _, job := range jobs {
		next <- job
	}
	close(next)
	all.Wait()
}
