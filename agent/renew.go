package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"quantix/internal/wire"
)

const (
	minRenewalPause = 10 * time.Second // even if the portal has sent no time and this machine's clock is wrong
	portalTimeCheck = 10 * time.Minute // between two reads of the portal's time
)

// certificateRenewalLoop renews the certificate before it expires. The agent uses the new certificate at once, without a restart.
func (a *Agent) certificateRenewalLoop(ctx context.Context) {
	wait := newBackoff(time.Second, 5*time.Minute)
	pause := time.Duration(0)
	for {
		from, until := a.identity.certificateValidity()
		a.metrics.certificateEnds.Set(float64(until.Unix()))
		if !waitForRenewal(ctx, certificateRenewalTime(from, until, rand.Float64()), pause, a.client.Now, a.certificateRefused) {
			return
		}
		pause = minRenewalPause
		for {
			err := a.renewCertificate(ctx)
			if err == nil {
				wait.Reset()
				break
			}
			if ctx.Err() != nil {
				return
			}
			a.log.Warn("The host's certificate could not be renewed; trying again.", "error", err, "validUntil", until)
			if !sleepContext(ctx, wait.NextBackOff()) {
				return
			}
		}
	}
}

// waitForRenewal waits for at least the pause, and then until the due time by the portal's clock, or until the portal
// refuses the certificate. It reports whether ctx is still open. now returns the portal's time, and this machine's time,
// which may be wrong, only until the portal has sent its own.
func waitForRenewal(ctx context.Context, due time.Time, pause time.Duration, now func() time.Time, refused <-chan struct{}) bool {
	for ; ; pause = min(due.Sub(now()), portalTimeCheck) {
		select {
		case <-ctx.Done():
			return false
		case <-refused:
			return true
		case <-time.After(pause):
		}
		if !now().Before(due) {
			return true
		}
	}
}

// certificateRenewalTime returns the time after two thirds of the certificate's lifetime, less a random part of up to a tenth, so that
// hosts that joined together do not renew together. random is in [0, 1).
func certificateRenewalTime(from, until time.Time, random float64) time.Time {
	life := until.Sub(from)
	return from.Add(life*2/3 - time.Duration(random*float64(life)/10))
}

func (a *Agent) renewCertificate(ctx context.Context) error {
	csr, err := a.identity.csr(string(a.identity.HostID()))
	if err != nil {
		return err
	}
	cert, err := a.client.Renew(ctx, wire.RenewRequest{CSR: csr})
	if err != nil {
		return fmt.Errorf("renew the certificate: %w", err)
	}
	saved := savedIdentity{Portal: a.identity.Portal(), HostID: a.identity.HostID(), Certificate: cert}
	if err := a.identity.replaceCertificate(saved); err != nil {
		return err
	}
	a.client.ReloadCredentials()
	a.log.Info("The host's certificate was renewed.")
	a.certificateRenewed.broadcast()
	return nil
}
