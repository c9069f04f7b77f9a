package postroom.driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.util.ArrayList;
import java.util.Date;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.qpid.proton.amqp.Binary;
import org.apache.qpid.proton.amqp.Decimal128;
import org.apache.qpid.proton.amqp.Decimal32;
import org.apache.qpid.proton.amqp.Decimal64;
import org.apache.qpid.proton.amqp.DescribedType;
import org.apache.qpid.proton.amqp.Symbol;
import org.apache.qpid.proton.amqp.UnsignedByte;
import org.apache.qpid.proton.amqp.UnsignedInteger;
import org.apache.qpid.proton.amqp.UnsignedLong;
import org.apache.qpid.proton.amqp.UnsignedShort;

/** Typed JSON values to and from the Java objects of proton-j, which Qpid JMS encodes and decodes with. */
final class Values {
    private static final HexFormat HEX = HexFormat.of();

    /** The Java class of an AMQP type. (proton-j encodes an array of primitives only as a whole body, not inside a list.) */
    private static final Map<String, Class<?>> ARRAY_CLASSES = new LinkedHashMap<>();

    static {
        ARRAY_CLASSES.put("boolean", Boolean.class);
        ARRAY_CLASSES.put("ubyte", UnsignedByte.class);
        ARRAY_CLASSES.put("ushort", UnsignedShort.class);
        ARRAY_CLASSES.put("uint", UnsignedInteger.class);
        ARRAY_CLASSES.put("ulong", UnsignedLong.class);
        ARRAY_CLASSES.put("byte", Byte.class);
        ARRAY_CLASSES.put("short", Short.class);
        ARRAY_CLASSES.put("int", Integer.class);
        ARRAY_CLASSES.put("long", Long.class);
        ARRAY_CLASSES.put("float", Float.class);
        ARRAY_CLASSES.put("double", Double.class);
        ARRAY_CLASSES.put("char", Character.class);
        ARRAY_CLASSES.put("timestamp", Date.class);
        ARRAY_CLASSES.put("uuid", UUID.class);
        ARRAY_CLASSES.put("binary", Binary.class);
        ARRAY_CLASSES.put("string", String.class);
        ARRAY_CLASSES.put("symbol", Symbol.class);
    }

    private Values() {
    }

    /** A value with a descriptor that proton-j knows nothing of. */
    record Described(Object descriptor, Object value) implements DescribedType {
        @Override
        public Object getDescriptor() {
            return descriptor;
        }

        @Override
        public Object getDescribed() {
            return value;
        }
    }

    static Object fromJson(JsonNode typed) {
        String name = typed.fieldNames().next();
        JsonNode value = typed.get(name);
        return switch (name) {
            case "null" -> null;
            case "boolean" -> value.booleanValue();
            case "list" -> list(value);
            case "map" -> map(value);
            case "array" -> array(value);
            case "described" -> new Described(fromJson(value.get(0)), fromJson(value.get(1)));
            default -> scalar(name, value.textValue());
        };
    }

    private static Object scalar(String name, String text) {
        return switch (name) {
            case "ubyte" -> UnsignedByte.valueOf(text);
            case "ushort" -> UnsignedShort.valueOf(text);
            case "uint" -> UnsignedInteger.valueOf(text);
            case "ulong" -> UnsignedLong.valueOf(text);
            case "byte" -> Byte.valueOf(text);
            case "short" -> Short.valueOf(text);
            case "int" -> Integer.valueOf(text);
            case "long" -> Long.valueOf(text);
            case "float" -> Float.intBitsToFloat(Integer.parseUnsignedInt(text, 16));
            case "double" -> Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
            case "decimal32" -> new Decimal32(Integer.parseUnsignedInt(text, 16));
            case "decimal64" -> new Decimal64(Long.parseUnsignedLong(text, 16));
            case "decimal128" -> new Decimal128(HEX.parseHex(text));
            case "char" -> character(Integer.parseInt(text));
            case "timestamp" -> new Date(Long.parseLong(text));
            case "uuid" -> UUID.fromString(text);
            case "binary" -> new Binary(HEX.parseHex(text));
            case "string" -> text;
            case "symbol" -> Symbol.valueOf(text);
            default -> throw new NotExpressible("type " + name);
        };
    }

    private static Character character(int codePoint) {
        if (!Character.isBmpCodePoint(codePoint)) {
            throw new NotExpressible("the character " + codePoint + ", which is no single Java char");
        }
        return (char) codePoint;
    }

    private static List<Object> list(JsonNode items) {
        List<Object> list = new ArrayList<>();
        items.forEach(item -> list.add(fromJson(item)));
        return list;
    }

    private static Map<Object, Object> map(JsonNode pairs) {
        Map<Object, Object> map = new LinkedHashMap<>();
        pairs.forEach(pair -> map.put(fromJson(pair.get(0)), fromJson(pair.get(1))));
        return map;
    }

    private static Object array(JsonNode spec) {
        Class<?> type = ARRAY_CLASSES.get(spec.get("type").textValue());
        if (type == null) {
            throw new NotExpressible("an array of " + spec.get("type"));
        }
        JsonNode items = spec.get("items");
        Object array = Array.newInstance(type, items.size());
        for (int i = 0; i < items.size(); i++) {
            Array.set(array, i, fromJson(items.get(i)));
        }
        return array;
    }

    static ObjectNode toJson(Object value) {
        ObjectNode told = Driver.JSON.createObjectNode();
        if (value == null) {
            told.put("null", true);
        } else if (value instanceof Boolean flag) {
            told.put("boolean", flag);
        } else if (value instanceof List<?> list) {
            ArrayNode items = told.putArray("list");
            list.forEach(item -> items.add(toJson(item)));
        } else if (value instanceof Map<?, ?> map) {
            ArrayNode pairs = told.putArray("map");
            map.forEach((key, item) -> pairs.addArray().add(toJson(key)).add(toJson(item)));
        } else if (value instanceof DescribedType described) {
            told.putArray("described").add(toJson(described.getDescriptor())).add(toJson(described.getDescribed()));
        } else if (value.getClass().isArray()) {
            told.set("array", arrayToJson(value));
        } else {
            scalarToJson(told, value);
        }
        return told;
    }

    private static ObjectNode arrayToJson(Object array) {
        Class<?> type = array.getClass().getComponentType();
        ObjectNode told = Driver.JSON.createObjectNode();
        told.put("type", typeName(type));
        ArrayNode items = told.putArray("items");
        for (int i = 0; i < Array.getLength(array); i++) {
            items.add(toJson(Array.get(array, i)));
        }
        return told;
    }

    /** proton-j decodes arrays of primitives where Java has them. */
    private static String typeName(Class<?> type) {
        Class<?> boxed = MethodType.methodType(type).wrap().returnType();
        for (var named : ARRAY_CLASSES.entrySet()) {
            if (named.getValue() == boxed) {
                return named.getKey();
            }
        }
        throw new NotExpressible("an array of " + type.getSimpleName());
    }

    private static void scalarToJson(ObjectNode told, Object value) {
        if (value instanceof Float number) {
            told.put("float", String.format("%08x", Float.floatToRawIntBits(number)));
        } else if (value instanceof Double number) {
            told.put("double", String.format("%016x", Double.doubleToRawLongBits(number)));
        } else if (value instanceof Decimal32 number) {
            told.put("decimal32", String.format("%08x", number.getBits()));
        } else if (value instanceof Decimal64 number) {
            told.put("decimal64", String.format("%016x", number.getBits()));
        } else if (value instanceof Decimal128 number) {
            told.put("decimal128", HEX.formatHex(number.asBytes()));
        } else if (value instanceof Character character) {
            told.put("char", String.valueOf((int) character));
        } else if (value instanceof Date date) {
            told.put("timestamp", String.valueOf(date.getTime()));
        } else if (value instanceof Binary binary) {
            told.put("binary", HEX.formatHex(binary.getArray(), binary.getArrayOffset(), binary.getArrayOffset() + binary.getLength()));
        } else {
            told.put(PLAIN_NAMES.get(value.getClass()), value.toString());
        }
    }

    /** Classes whose text is the JSON form. */
    private static final Map<Class<?>, String> PLAIN_NAMES = Map.ofEntries(
        Map.entry(UnsignedByte.class, "ubyte"), Map.entry(UnsignedShort.class, "ushort"),
        Map.entry(UnsignedInteger.class, "uint"), Map.entry(UnsignedLong.class, "ulong"),
        Map.entry(Byte.class, "byte"), Map.entry(Short.class, "short"), Map.entry(Integer.class, "int"),
        Map.entry(Long.class, "long"), Map.entry(UUID.class, "uuid"), Map.entry(String.class, "string"),
        Map.entry(Symbol.class, "symbol"));
}
