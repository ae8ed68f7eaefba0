package network

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestBandwidthGapsNameTheMissingModules(t *testing.T) {
	t.Parallel()
	status := errors.New("exit status 1")
	failed := func(steps ...int) string {
		var out strings.Builder
		for _, n := range steps {
			fmt.Fprintf(&out, "Error: Specified qdisc kind is unknown.\nWe have an error talking to the kernel\nCommand failed -:%d\n", n)
		}
		return out.String()
	}
	for name, c := range map[string]struct {
		output string
		err    error
		want   string // part of the reason; empty: no gap
	}{
		"all modules":                    {"", nil, ""},
		"no sfq":                         {failed(3), status, "The kernel lacks sch_sfq,"},
		"no sfq, fw and police":          {failed(3, 4, 7), status, "The kernel lacks sch_sfq, cls_fw, act_police,"},
		"no htb: sfq and fw not blamed":  {failed(1, 2, 3, 4), status, "The kernel lacks sch_htb,"},
		"no ingress: filters not blamed": {failed(5, 6, 7), status, "The kernel lacks sch_ingress,"},
		"no u32: police not blamed":      {failed(6, 7), status, "The kernel lacks cls_u32,"},
		"no tc":                          {"", &exec.Error{Name: "tc", Err: exec.ErrNotFound}, "tc is missing."},
		"no network namespaces":          {"", errors.New("fork/exec /usr/sbin/tc: operation not permitted"), ""},
		"no CAP_NET_ADMIN":               {"RTNETLINK answers: Operation not permitted\n" + failed(1), status, ""},
		"a tc without batch mode":        {"Usage: tc", status, ""},
	} {
		gaps := MissingBandwidthLimits(t.Context(), func(context.Context, string) (string, error) { return c.output, c.err })
		var fields []string
		for _, g := range gaps {
			fields = append(fields, g.Field)
			if !strings.Contains(g.Why, c.want) {
				t.Errorf("%s: %s, want %s", name, g.Why, c.want)
			}
		}
		want := ""
		if c.want != "" {
			want = "nics.limits.inKiB nics.limits.outKiB"
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s: gaps of %q, want %q", name, got, want)
		}
	}
}

func TestBandwidthProbeEndsWhenTCHangs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	gaps := MissingBandwidthLimits(ctx, func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		return "Command failed -:3\n", ctx.Err()
	})
	if gaps != nil {
		t.Errorf("a hanging probe reports %+v", gaps)
	}
}

func TestUnsupportedNICLimitsReportedBySpecField(t *testing.T) {
	t.Parallel()
	used := fleet.VMSpec{NICs: []fleet.NIC{{Limits: fleet.NICLimits{InKiB: 10, OutKiB: 20}}}}.UsedFields()
	for i, g := range fleet.NICLimitGaps("why") {
		if used[i].Name != g.Field {
			t.Errorf("the gap %s names no field: %+v", g.Field, used)
		}
	}
}
