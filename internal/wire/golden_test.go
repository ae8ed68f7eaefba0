package wire_test

import (
	"testing"

	"quantix/internal/testkit/golden"
	"quantix/internal/wire"
)

func TestMessagesMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	golden.Types(
		t, "testdata/messages.json",
		wire.JoinRequest{}, wire.JoinAnswer{}, wire.RenewRequest{}, wire.Hello{}, wire.HelloAnswer{},
		wire.Report{}, wire.ReportAnswer{}, wire.ClaimRequest{}, wire.Claim{}, wire.Progress{}, wire.Finish{}, wire.FinishAnswer{}, wire.Results{}, wire.ResultsAnswer{}, wire.PoolSecret{},
	)
}
