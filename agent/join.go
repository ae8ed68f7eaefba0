package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"quantix/internal/wire"
)

// JoinOptions names the portal to join and describes the host.
type JoinOptions struct {
	Portal   string // "https://host:8444"
	Token    string // join token from Hosts, Add host
	Name     string // the host's name in Quantix
	HostUUID string // the machine's UUID
	DataDir  string // directory for key and certificate
}

// Join creates a key, requests a certificate from the portal, stores both, and returns the host's name. If the
// directory already contains an identity, Join sends its host ID: the portal then reissues only that identity, and from
// then on accepts only the new key.
func Join(ctx context.Context, o JoinOptions) (name string, err error) {
	id, err := lockDir(o.DataDir)
	if err != nil {
		return "", err
	}
	defer id.Close()
	// An unreadable identity, for example a half-replaced one after a crash, counts as missing: joining repairs it.
	_ = id.readFiles()
	before := id.HostID()
	if id.key, err = newKey(); err != nil {
		return "", fmt.Errorf("generate the host's key: %w", err)
	}
	csr, err := id.csr(o.Name)
	if err != nil {
		return "", err
	}
	answer, err := wire.Join(ctx, o.Portal, o.Token, wire.JoinRequest{Name: o.Name, HostUUID: o.HostUUID, HostID: before, CSR: csr})
	var refused *wire.Error
	switch {
	case errors.As(err, &refused):
		return "", fmt.Errorf("the portal refused the join: %s", refused.Detail)
	case err != nil:
		return "", fmt.Errorf("join %s: %w", o.Portal, err)
	}
	if err := id.saveKey(); err != nil {
		return "", fmt.Errorf("save the host's key: %w", err)
	}
	return answer.Name, id.replaceCertificate(savedIdentity{Portal: o.Portal, HostID: answer.HostID, Certificate: answer.Certificate})
}

// HasJoined reports whether the data directory holds an identity.
func HasJoined(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, identityFile))
	return err == nil
}
