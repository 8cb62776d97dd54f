package aws

import (
	"encoding/json"
	"fmt"
	"strings"
)

// secret resolves what a container's secret refers to, as the container agent
// does: an ARN of Secrets Manager with an optional JSON key, version stage and
// version ID behind it, or a parameter's ARN or name. See
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_Secret.html and
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/secrets-envvar-secrets-manager.html
func (s *Server) secret(from string) (string, error) {
	if !strings.HasPrefix(from, "arn:aws:secretsmanager:") {
		return s.ssm.Value(from)
	}
	parts := strings.Split(from, ":")
	const bare = 7 // arn:aws:secretsmanager:region:account:secret:name
	if len(parts) == bare {
		return s.secrets.Value(from, "", "")
	}
	if len(parts) != bare+3 {
		return "", fmt.Errorf("unexpected ARN format with parameters when trying to retrieve ASM secret")
	}
	key, stage, version := parts[bare], parts[bare+1], parts[bare+2]
	text, err := s.secrets.Value(strings.Join(parts[:bare], ":"), stage, version)
	if err != nil || key == "" {
		return text, err
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		return "", fmt.Errorf("invalid character in the secret: it is no JSON, so it has no key %s", key)
	}
	value, ok := members[key]
	if !ok {
		return "", fmt.Errorf("retrieved secret from Secrets Manager did not contain json key %s", key)
	}
	if text, ok := value.(string); ok {
		return text, nil
	}
	data, err := json.Marshal(value)
	return string(data), err
}
