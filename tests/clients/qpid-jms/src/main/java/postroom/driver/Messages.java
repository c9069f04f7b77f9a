package postroom.driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.io.Serializable;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Enumeration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.qpid.jms.provider.amqp.message.AmqpMessageIdHelper;

/** JMS messages to and from the JSON form of ../../README.md. */
final class Messages {
    private static final int PERIOD = 251;
    private static final int HEX_BYTES = 1024;
    private static final List<String> REFUSED =
        List.of("message_id", "annotations", "content_type", "content_encoding", "user_id", "creation_time_ms");
    private static final Map<String, String> STRING_PROPERTIES =
        Map.of("group_id", "JMSXGroupID", "reply_to_group_id", "JMS_AMQP_REPLY_TO_GROUP_ID");

    private Messages() {
    }

    static Message fromJson(Session session, JsonNode spec) throws JMSException {
        for (String field : REFUSED) {
            if (spec.has(field)) {
                throw new NotExpressible("the property " + field + " of a message");
            }
        }
        Message message = withBody(session, spec.path("body"));
        if (spec.has("correlation_id")) {
            message.setJMSCorrelationID(idText(Values.fromJson(spec.get("correlation_id"))));
        }
        if (spec.has("subject")) {
            message.setJMSType(spec.get("subject").textValue());
        }
        if (spec.has("reply_to")) {
            message.setJMSReplyTo(session.createQueue(spec.get("reply_to").textValue()));
        }
        setProperties(message, spec);
        return message;
    }

    private static void setProperties(Message message, JsonNode spec) throws JMSException {
        for (var named : STRING_PROPERTIES.entrySet()) {
            if (spec.has(named.getKey())) {
                message.setStringProperty(named.getValue(), spec.get(named.getKey()).textValue());
            }
        }
        if (spec.has("group_sequence")) {
            message.setIntProperty("JMSXGroupSeq", spec.get("group_sequence").asInt());
        }
        for (JsonNode pair : spec.path("properties")) {
            message.setObjectProperty(pair.get(0).textValue(), Values.fromJson(pair.get(1)));
        }
    }

    /** Qpid JMS writes ids that are no strings with a prefix that names their type. */
    private static String idText(Object id) {
        Object said = id instanceof String ? id : AmqpMessageIdHelper.toCorrelationIdString(id);
        return (String) said;
    }

    private static Message withBody(Session session, JsonNode body) throws JMSException {
        if (body.has("data")) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(data(body.get("data")));
            return message;
        }
        if (body.has("sequence")) {
            throw new NotExpressible("a sequence body");
        }
        JsonNode value = body.path("value");
        if (value.has("string")) {
            return session.createTextMessage(value.get("string").textValue());
        }
        if (value.isMissingNode() || value.has("null")) {
            return session.createTextMessage();
        }
        if (!(value.has("list") || value.has("map") || value.has("array"))) {
            throw new NotExpressible("a body value of type " + value.fieldNames().next());
        }
        ObjectMessage message = session.createObjectMessage();
        message.setBooleanProperty("JMS_AMQP_TYPED_ENCODING", true);
        message.setObject((Serializable) Values.fromJson(value));
        return message;
    }

    private static byte[] data(JsonNode spec) {
        if (spec.has("hex")) {
            return HexFormat.of().parseHex(spec.get("hex").textValue());
        }
        byte[] bytes = new byte[spec.get("size").asInt()];
        int seed = spec.get("seed").asInt();
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) ((i % PERIOD * 31 + seed) % PERIOD);
        }
        return bytes;
    }

    static ObjectNode toJson(Message message) throws JMSException {
        ObjectNode told = Driver.JSON.createObjectNode();
        told.put("durable", message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT);
        told.put("priority", message.getJMSPriority());
        told.put("delivery_count", message.getIntProperty("JMSXDeliveryCount") - 1);
        putTime(told, "absolute_expiry_time_ms", message.getJMSExpiration());
        putTime(told, "creation_time_ms", message.getJMSTimestamp());
        putText(told, "subject", message.getJMSType());
        putText(told, "to", name(message.getJMSDestination()));
        putText(told, "reply_to", name(message.getJMSReplyTo()));
        putId(told, "message_id", message.getJMSMessageID());
        putId(told, "correlation_id", message.getJMSCorrelationID());
        putProperties(told, message);
        told.set("body", body(message));
        return told;
    }

    private static String name(jakarta.jms.Destination destination) throws JMSException {
        return destination instanceof Queue queue ? queue.getQueueName() : null;
    }

    private static void putTime(ObjectNode told, String name, long ms) {
        if (ms != 0) {
            told.put(name, ms);
        }
    }

    private static void putText(ObjectNode told, String name, String text) {
        if (text != null) {
            told.put(name, text);
        }
    }

    private static void putId(ObjectNode told, String name, String text) throws JMSException {
        if (text != null) {
            told.set(name, Values.toJson(AmqpMessageIdHelper.toIdObject(text)));
        }
    }

    private static void putProperties(ObjectNode told, Message message) throws JMSException {
        ArrayNode properties = Driver.JSON.createArrayNode();
        Enumeration<?> names = message.getPropertyNames();
        while (names.hasMoreElements()) {
            String name = (String) names.nextElement();
            if (name.equals("JMSXGroupID")) {
                told.put("group_id", message.getStringProperty(name));
            } else if (name.equals("JMSXGroupSeq")) {
                told.put("group_sequence", message.getIntProperty(name));
            } else if (name.equals("JMS_AMQP_REPLY_TO_GROUP_ID")) {
                told.put("reply_to_group_id", message.getStringProperty(name));
            } else if (!name.startsWith("JMSX") && !name.startsWith("JMS_AMQP")) {
                properties.addArray().add(name).add(Values.toJson(message.getObjectProperty(name)));
            }
        }
        if (!properties.isEmpty()) {
            told.set("properties", properties);
        }
    }

    private static ObjectNode body(Message message) throws JMSException {
        ObjectNode told = Driver.JSON.createObjectNode();
        if (message instanceof BytesMessage bytes) {
            byte[] data = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(data);
            told.set("data", toldData(data));
        } else if (message instanceof TextMessage text) {
            told.set("value", Values.toJson(text.getText()));
        } else if (message instanceof ObjectMessage object) {
            told.set("value", Values.toJson(object.getObject()));
        } else {
            throw new NotExpressible("a message of class " + message.getClass().getSimpleName());
        }
        return told;
    }

    private static ObjectNode toldData(byte[] data) {
        ObjectNode told = Driver.JSON.createObjectNode().put("size", data.length);
        try {
            told.put("sha256", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data)));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
        if (data.length <= HEX_BYTES) {
            told.put("hex", HexFormat.of().formatHex(data));
        }
        return told;
    }
}
