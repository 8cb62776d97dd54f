package keeper

// privateUmask does nothing: files take the folder's access rules.
func privateUmask() (restore func()) { return func() {} }
