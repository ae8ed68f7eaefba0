package hostfile

import (
	"testing"
)

func TestReportedDiskSizeIgnoresSmallChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reported, newest, total, want int64 }{
		{100, 100 + minReportedChange - 1, 0, 100},
		{100, 100 + minReportedChange, 0, 100 + minReportedChange},
		{minReportedChange * 2, minReportedChange, 0, minReportedChange},
		{100, 100 + minReportedChange, 1000 * 2 * minReportedChange, 100},
	} {
		if got := SteadySize(c.reported, c.newest, c.total); got != c.want {
			t.Errorf("steady(%d, %d, %d) = %d, want %d", c.reported, c.newest, c.total, got, c.want)
		}
	}
}
