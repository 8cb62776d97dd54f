package sqlite

// Commits returns how many transactions the store committed.
func Commits(s *Store) int64 { return s.w.commits.Load() }
