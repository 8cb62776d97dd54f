package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// givePages is how many pages one transaction gives back, so that writers beside it
// wait for moments only.
const givePages = 500

// incremental is the value of PRAGMA auto_vacuum for files whose free pages can be
// given back some at a time: https://www.sqlite.org/pragma.html#pragma_auto_vacuum.
const incremental = 2

// giveBack gives the pages that nothing uses any more back to the file system. The
// file shrinks with the next checkpoint of the write-ahead log.
func (s *Store) giveBack(ctx context.Context) error {
	for {
		var left int64
		err := s.w.do(ctx, "give space of ledger back", false, func(t *tx) (err error) {
			if left, err = t.freePages(); err != nil || left == 0 {
				return err
			}
			t.changes++
			// It frees a page with every step, so it is run to its end.
			give := fmt.Sprintf("PRAGMA incremental_vacuum(%d)", givePages)
			if err := t.w.c.query(context.Background(), give, nil, func(row) (bool, error) { return true, nil }); err != nil {
				return err
			}
			left, err = t.freePages()
			return err
		})
		if err != nil || left == 0 {
			return err
		}
	}
}

func (t *tx) freePages() (int64, error) {
	return t.w.c.number(context.Background(), "PRAGMA freelist_count")
}

// makeIncremental rewrites a file that can't give pages back, so that it can. It is
// part of a migration, which has made a copy and keeps others out.
func makeIncremental(ctx context.Context, db *sql.DB) error {
	var mode int64
	if err := db.QueryRowContext(ctx, "PRAGMA auto_vacuum").Scan(&mode); err != nil || mode == incremental {
		return err
	}
	// The mode of a file that has tables changes with the next VACUUM alone, in the
	// same connection.
	if _, err := db.ExecContext(ctx, "PRAGMA auto_vacuum=INCREMENTAL"); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "VACUUM")
	return err
}
