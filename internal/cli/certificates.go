package cli

import (
	"context"
	"crypto/x509"
	"log/slog"
	"os"
	"time"

	"quantix/internal/auth"
)

const (
	certificateReload = 10 * time.Second // interval between reads of the certificate files
	certificateRemind = 24 * time.Hour   // interval between log warnings about an expiring certificate
)

// certificates holds the TLS certificates that a portal presents to browsers and agents.
type certificates struct {
	browsers  *auth.FileCert // nil: the portal does not use TLS for browsers
	agents    *auth.ServerCert
	authority *x509.Certificate
	log       *slog.Logger

	failure string // error of the last reload, so that the same error is logged only once
}

// watch reloads renewed certificates periodically, and immediately on each signal. It logs warnings about certificates
// that expire soon. It returns when ctx ends.
func (c *certificates) watch(ctx context.Context, signals <-chan os.Signal) error {
	reload, remind := time.NewTicker(certificateReload), time.NewTicker(certificateRemind)
	defer reload.Stop()
	defer remind.Stop()
	c.warnOfExpiry()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-remind.C:
			c.warnOfExpiry()
		case <-reload.C:
			c.reload()
		case <-signals:
			c.log.Info("SIGHUP: the portal reads its TLS certificate again and issues a new one for agents")
			c.failure = ""
			c.reload()
			if err := c.agents.Renew(); err != nil {
				c.log.Error("the certificate for agents cannot be renewed", "error", err)
			}
			c.warnOfExpiry()
		}
	}
}

func (c *certificates) reload() {
	if c.browsers == nil {
		return
	}
	changed, err := c.browsers.Reload()
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	switch {
	case failure != "" && failure != c.failure:
		c.log.Warn("the TLS certificate cannot be read again; the portal keeps its current certificate", "error", err)
	case changed:
		c.log.Info("the renewed TLS certificate is in use", "until", c.browsers.Validity().Until)
		c.warnOfExpiry()
	}
	c.failure = failure
}

func (c *certificates) warnOfExpiry() {
	for _, v := range c.validities() {
		if text := v.Warning(time.Now()); text != "" {
			c.log.Warn(text)
		}
	}
}

// validities returns the validity periods of all certificates of this portal.
func (c *certificates) validities() []auth.Validity {
	all := []auth.Validity{{Use: "hosts", From: c.authority.NotBefore, Until: c.authority.NotAfter}}
	if v, err := c.agents.Validity(); err == nil {
		all = append(all, v)
	}
	if c.browsers != nil {
		all = append(all, c.browsers.Validity())
	}
	return all
}
