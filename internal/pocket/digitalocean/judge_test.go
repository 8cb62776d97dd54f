package digitalocean

import "testing"

func (c *cloud) judge(testing.TB) {}
