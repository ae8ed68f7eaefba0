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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := (&Client{portal: u}).request(ctx, PathJoin, in)
	if err != nil {
		return out, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	once := newLine(u, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // verified below, by fingerprint instead of by pool
		VerifyConnection:   verifyPinned(fingerprint, u.Hostname()),
		NextProtos:         []string{"http/1.1"},
	})
	defer once.retire()
	answer, err := once.send(ctx, req, false)
	if err == nil {
		err = answer.into(&out)
	}
	if err != nil {
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
