package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"errors"
)

// Join asks the portal for the first certificate. The portal is verified by the fingerprint inside the token, on this
// connection and again in the answer's authority, so the token's secret goes to nobody else.
func Join(ctx context.Context, portal, token string, in JoinRequest) (JoinAnswer, error) {
	var out JoinAnswer
	fingerprint, err := tokenFingerprint(token)
	if err != nil {
		return out, err
	}
	u, err := parsePortal(portal)
	if err != nil {
		return out, err
	}
	via := newHTTP(&tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // verified below, by fingerprint instead of by pool
		VerifyConnection:   verifyPinned(fingerprint, u.Hostname()),
	}, callTimeout)
	defer via.CloseIdleConnections()
	if err := (&Client{portal: u}).do(ctx, via, PathJoin, token, in, &out); err != nil {
		return out, err
	}
	block, _ := pem.Decode([]byte(out.CA))
	if block == nil {
		return out, errors.New("the portal's answer holds no certificate of its authority")
	}
	if sum := sha256.Sum256(block.Bytes); !bytes.Equal(sum[:], fingerprint) {
		return out, errors.New("the portal answered with another authority than the join token names")
	}
	return out, nil
}
